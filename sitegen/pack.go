package sitegen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// Levels of compression. Level 6 is within 3 % of level 9 on most files at half the
// price. What belongs to one host is made anew whenever the host has news, and seldom
// read: level 1 costs half of 6 there, for 600 bytes more a page. The front page
// is what everybody loads, again and again.
const (
	gzipLevel = 6
	hostLevel = 1
	bestLevel = gzip.BestCompression
)

func levelOf(name string) int {
	switch {
	case strings.HasPrefix(name, "hosts/") || strings.HasPrefix(name, "api/v1/hosts/"):
		return hostLevel
	case name == "index.html":
		return bestLevel
	}
	return gzipLevel
}

// twinFrom is how long a file is at least that gets a compressed twin, in bytes:
// a shorter one is one block on disk and three packets on the wire, and so would
// its twin be another block.
const twinFrom = 4 << 10

// worthTwin reports whether a file gets a compressed twin beside it. The text of a
// host and what is in colour have none: they are for curl and wget, which take
// nothing compressed unless told to.
func worthTwin(name string, size int) bool {
	forTerminals := path.Ext(name) == ".ansi" || strings.HasPrefix(name, "hosts/") && path.Base(name) == "status.txt"
	return size >= twinFrom && mayHaveTwin(name) && !forTerminals
}

// mayHaveTwin reports whether a file of this name can have one: it may have been
// longer, or written by a version that compressed everything.
func mayHaveTwin(name string) bool {
	switch path.Ext(name) {
	case ".html", ".css", ".js", ".json", ".txt", ".ansi", ".svg", ".ics", ".atom", ".csv":
		return true
	}
	return false
}

// packer compresses files on all cores while others are made and written.
type packer struct {
	v     *view
	jobs  chan []*packing
	hands sync.WaitGroup
}

// packing is one file, which is packed once ready is closed.
type packing struct {
	render.File
	ready chan struct{}
	twin  []byte // nil when the one on disk is right, or none is wanted
	right bool   // the one on disk is
	err   error
}

// Files are compressed packTogether at a time, because waking a hand up costs as
// much as a small one; packAhead is how many there are at most before the first
// of them is written, which keeps all hands busy in little memory.
const (
	packTogether = 32
	packAhead    = 128
)

func newPacker(v *view) *packer {
	p := &packer{v: v, jobs: make(chan []*packing, packAhead/packTogether)}
	for range runtime.GOMAXPROCS(0) {
		w := v.compressors.take()
		p.hands.Go(func() {
			for job := range p.jobs {
				for _, f := range job {
					f.err = p.pack(w, f)
				}
				close(job[0].ready)
			}
			v.compressors.give(w)
		})
	}
	return p
}

// start lets files be packed, which are ready all together.
func (p *packer) start(job []*packing) {
	ready := make(chan struct{})
	for _, f := range job {
		f.ready = ready
	}
	p.jobs <- job
}

// close waits until all hands are idle.
func (p *packer) close() {
	close(p.jobs)
	p.hands.Wait()
}

// pack makes the twin of a file, if it is to have one.
func (p *packer) pack(w compressors, f *packing) (err error) {
	size := sizeOf(f.Parts)
	if !worthTwin(f.Path, size) {
		return nil
	}
	if p.sameSize(f.Path, size) {
		if f.right = matches(p.v.twinOf(f.Path), plainOf(f.Parts)); f.right {
			return nil
		}
	}
	if f.twin, err = w.gzip(levelOf(f.Path), f.Parts); err != nil {
		return fmt.Errorf("compressing %s: %w", f.Path, err)
	}
	return nil
}

// sameSize reports whether a file of the site is of a size. Of another one it is
// made anew, and so is its twin, without a look at it.
func (p *packer) sameSize(name string, size int) bool {
	info, err := os.Lstat(filepath.Join(p.v.dir, filepath.FromSlash(name)))
	return err == nil && info.Size() == int64(size)
}

// plain is what a compressed twin says of its file: the checksum and the length
// that gzip keeps at the end (RFC 1952, 2.3.1).
type plain struct{ crc, size uint32 }

func plainOf(parts [][]byte) plain { return plain{checksum(parts), uint32(sizeOf(parts))} }

// plainOfTwin reads it from the last 8 bytes of a twin.
func plainOfTwin(end []byte) plain {
	return plain{binary.LittleEndian.Uint32(end[:4]), binary.LittleEndian.Uint32(end[4:])}
}

// matches reports whether the twin on disk is of such a file. Web servers never
// compare the two, so every generator does.
func matches(name string, want plain) bool {
	f, info, err := atomicfile.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info.Size() < 18 {
		return false
	}
	var end [8]byte
	if _, err := f.ReadAt(end[:], info.Size()-8); err != nil {
		return false
	}
	return plainOfTwin(end[:]) == want
}

func sizeOf(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

func checksum(parts [][]byte) (crc uint32) {
	for _, part := range parts {
		crc = crc32.Update(crc, crc32.IEEETable, part)
	}
	return crc
}
