package sitegen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/klauspost/compress/gzip"

	"gpuboard/sitegen/render"
)

// gzipLevel is what a page is compressed with: on these files level 6 is within
// 3 % of level 9 at half the price.
const gzipLevel = 6

// compressible reports whether a file gets a compressed twin beside it.
func compressible(name string) bool {
	switch path.Ext(name) {
	case ".html", ".css", ".js", ".json", ".txt", ".ansi", ".svg", ".ics", ".atom", ".csv":
		return true
	}
	return false
}

// packer compresses files on all cores while others are written.
type packer struct {
	files   []render.File
	pieces  *pieces
	look    bool // whether a twin on disk may be right already
	results []result
	ready   []chan struct{}
	ahead   chan struct{} // holds as many as are done and not yet taken
}

// packAhead is how many files are compressed before the first of them is
// written: enough to keep all hands busy, and little memory.
const packAhead = 64

type result struct {
	twin []byte // nil when the one on disk is right, or none is wanted
	err  error
}

func newPacker(files []render.File, site string, kept *pieces, look bool, stop <-chan struct{}) *packer {
	kept.begin()
	p := &packer{files: files, pieces: kept, look: look, results: make([]result, len(files)), ready: make([]chan struct{}, len(files))}
	for i := range p.ready {
		p.ready[i] = make(chan struct{})
	}
	p.ahead = make(chan struct{}, packAhead)
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range files {
			select {
			case p.ahead <- struct{}{}:
				next <- i
			case <-stop:
				return
			}
		}
	}()
	for range runtime.GOMAXPROCS(0) {
		go func() {
			// One writer of each kind for all files of a worker: making one costs more
			// than a page.
			whole, err1 := gzip.NewWriterLevel(io.Discard, gzipLevel)
			part, err2 := newPieceWriter(gzipLevel)
			var front *pieceWriter
			err := errors.Join(err1, err2)
			for i := range next {
				switch {
				case err != nil:
					p.results[i] = result{err: err}
				case files[i].Path == "index.html":
					// The page that everybody loads, again and again.
					if front, err = newPieceWriter(gzip.BestCompression); err != nil {
						p.results[i] = result{err: err}
						break
					}
					p.results[i] = p.pack(whole, front, files[i], site)
				default:
					p.results[i] = p.pack(whole, part, files[i], site)
				}
				close(p.ready[i])
			}
		}()
	}
	return p
}

// twin waits for the compressed form of file i; nil when nothing is to be written.
func (p *packer) twin(i int) ([]byte, error) {
	<-p.ready[i]
	r := p.results[i]
	p.results[i] = result{} // it is on its way to the disk
	<-p.ahead
	return r.twin, r.err
}

func (p *packer) pack(w *gzip.Writer, part *pieceWriter, f render.File, site string) result {
	if !compressible(f.Path) || p.look && matches(filepath.Join(site, filepath.FromSlash(f.Path)+".gz"), f.Parts) {
		return result{}
	}
	if sizeOf(f.Parts) >= piecesFrom || part.level != gzipLevel {
		twin, err := p.pieces.gzip(part, f.Parts)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Path, err)
		}
		return result{twin: twin, err: err}
	}
	var buf bytes.Buffer
	w.Reset(&buf)
	for _, part := range f.Parts {
		if _, err := w.Write(part); err != nil {
			return result{err: fmt.Errorf("compressing %s: %w", f.Path, err)}
		}
	}
	if err := w.Close(); err != nil {
		return result{err: fmt.Errorf("compressing %s: %w", f.Path, err)}
	}
	return result{twin: bytes.Clone(buf.Bytes())}
}

// matches reports whether the compressed twin on disk is of these bytes, by the
// checksum and the length that gzip keeps at the end (RFC 1952, 2.3.1). Web
// servers never compare the two, so every generation does.
func matches(name string, content [][]byte) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < 18 {
		return false
	}
	var end [8]byte
	if _, err := f.ReadAt(end[:], info.Size()-8); err != nil {
		return false
	}
	return binary.LittleEndian.Uint32(end[4:]) == uint32(sizeOf(content)) &&
		binary.LittleEndian.Uint32(end[:4]) == checksum(content)
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
