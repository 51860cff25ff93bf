package sitegen

import (
	"bytes"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"

	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
)

// minGzip is the size in bytes from which a file has a compressed copy. A shorter
// file is one block on disk and three packets on the wire, so that a copy saves
// nothing.
const minGzip = 4 << 10

// hasGzip reports whether a file has a compressed copy beside it. The text of a host
// and files in colour have none: they are for curl and wget, which accept nothing
// compressed unless told to.
func hasGzip(name string, size int) bool {
	forTerminals := path.Ext(name) == ".ansi" || strings.HasPrefix(name, "hosts/") && path.Base(name) == "status.txt"
	return size >= minGzip && mayHaveGzip(name) && !forTerminals
}

// mayHaveGzip reports whether a file of this name can have a compressed copy on
// disk: it may have been longer, or written by an earlier version.
func mayHaveGzip(name string) bool {
	switch path.Ext(name) {
	case ".html", ".css", ".js", ".json", ".txt", ".ansi", ".svg", ".ics", ".atom", ".csv":
		return true
	}
	return false
}

// gzipLevel is the level of compression of a file. Everybody loads the front page.
// The files of one host change with every snapshot and are read seldom, and so is the list of all bookings. Level 5
// makes other files within 6 % as small as level 6, in a third of the time.
func gzipLevel(name string) int {
	switch {
	case strings.HasPrefix(name, "hosts/"), strings.HasPrefix(name, data.HostsDir), name == data.BookingsPath:
		return 1
	case name == "index.html":
		return gzip.BestCompression
	}
	return 5
}

// A compressor is a buffer and writers by level. Making a writer costs more than
// compressing a page, so they are reused.
type compressor struct {
	buf     bytes.Buffer
	writers map[int]*gzip.Writer
}

// gzip returns the compressed copy of a file, which is good until the next call.
func (c *compressor) gzip(f *render.File) []byte {
	level := gzipLevel(f.Path)
	c.buf.Reset()
	w := c.writers[level]
	if w == nil {
		w, _ = gzip.NewWriterLevel(&c.buf, level) // which is one that there is
		c.writers[level] = w
	}
	w.Reset(&c.buf)
	_, _ = w.Write(f.Content) // a buffer in memory cannot fail
	_ = w.Close()
	return c.buf.Bytes()
}
