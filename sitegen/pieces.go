package sitegen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Bounds of a piece, in bytes, and from which size on a file is made of them.
const (
	pieceLeast = 48 << 10
	pieceMost  = 256 << 10
	piecesFrom = 256 << 10
)

// pieces compresses large files piece by piece, and keeps what it made for the
// next generation: the whole board changes with every generation, but hardly
// any of its lines do. A file is cut behind lines that are chosen by what is
// in them, so that a line more or less moves only the cuts beside it. Each
// piece is compressed by itself and ends on a byte, so pieces stand in one
// stream like any other blocks (RFC 1951, 3.2.4). The zero value is ready to
// use, by one generation at a time.
type pieces struct {
	mu        sync.Mutex
	seed      maphash.Seed
	kept, now map[pieceKey][]byte
}

// pieceKey is a piece by its content. Two sums, because a wrong piece would be
// a wrong page.
type pieceKey struct {
	sum uint64
	crc uint32
	len int
}

// begin starts a generation: what the last one did not use is forgotten.
func (p *pieces) begin() {
	if p.now == nil {
		p.seed = maphash.MakeSeed()
	}
	p.kept, p.now = p.now, map[pieceKey][]byte{}
}

// gzip returns content as a gzip file.
func (p *pieces) gzip(w *flate.Writer, content []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}) // no name, no time, whatever system
	for rest := content; len(rest) > 0; {
		n := p.cut(rest)
		piece, err := p.piece(w, rest[:n])
		if err != nil {
			return nil, err
		}
		out.Write(piece)
		rest = rest[n:]
	}
	out.Write([]byte{1, 0, 0, 0xff, 0xff}) // an empty block, the last one
	end := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(content))
	out.Write(binary.LittleEndian.AppendUint32(end, uint32(len(content))))
	return out.Bytes(), nil
}

// cut returns the length of the first piece.
func (p *pieces) cut(content []byte) int {
	if len(content) <= pieceLeast {
		return len(content)
	}
	for at := pieceLeast; at < min(len(content), pieceMost); {
		line := bytes.IndexByte(content[at:], '\n') + 1
		if line == 0 {
			break
		}
		// One line in eight ends a piece.
		if at+line <= pieceMost && maphash.Bytes(p.seed, content[at:at+line])%8 == 0 {
			return at + line
		}
		at += line
	}
	return min(len(content), pieceMost)
}

func (p *pieces) piece(w *flate.Writer, content []byte) ([]byte, error) {
	key := pieceKey{maphash.Bytes(p.seed, content), crc32.ChecksumIEEE(content), len(content)}
	p.mu.Lock()
	packed, found := p.kept[key]
	if found {
		p.now[key] = packed
	}
	p.mu.Unlock()
	if found {
		return packed, nil
	}
	var buf bytes.Buffer
	w.Reset(&buf)
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	p.mu.Lock()
	p.now[key] = buf.Bytes()
	p.mu.Unlock()
	return buf.Bytes(), nil
}

// newFlate makes the writer for pieces: one for all files of a worker.
func newFlate() (*flate.Writer, error) { return flate.NewWriter(io.Discard, gzipLevel) }
