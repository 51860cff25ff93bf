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
	pieceLeast = 24 << 10
	pieceMost  = 192 << 10
	piecesFrom = 128 << 10
)

// pieceWindow is how far back a piece refers to what stands before it, which is
// as far as the format lets it (RFC 1951, 2).
const pieceWindow = 32 << 10

// pieces compresses large files piece by piece, and keeps what it made for the
// next generation: the whole board changes with every generation, but hardly
// any of its lines do. A file is cut behind lines that are chosen by what is
// in them, so that a line more or less moves only the cuts beside it. Each
// piece ends on a byte, so pieces stand in one stream like any other blocks
// (RFC 1951, 3.2.4). It is compressed as if all before it had been, and so hardly
// less well than in one go; that makes it a piece of the window before it, too.
// The zero value is ready to use, by one generation at a time.
type pieces struct {
	mu        sync.Mutex
	seed      maphash.Seed
	kept, now map[pieceKey][]byte
}

// pieceKey is a piece by its content and the window before it. Two sums, because
// a wrong piece would be a wrong page.
type pieceKey struct {
	sum         uint64
	crc         uint32
	window, len int
	level       int
}

// A pieceWriter compresses pieces at one level.
type pieceWriter struct {
	*flate.Writer
	level int
}

// begin starts a generation: what the last one did not use is forgotten.
func (p *pieces) begin() {
	if p.now == nil {
		p.seed = maphash.MakeSeed()
	}
	p.kept, p.now = p.now, map[pieceKey][]byte{}
}

// gzip returns content as a gzip file.
func (p *pieces) gzip(w *pieceWriter, content []byte) ([]byte, error) {
	var parts [][]byte
	size := 64
	for at := 0; at < len(content); {
		n := p.cut(content[at:])
		packed, err := p.piece(w, content[max(0, at-pieceWindow):at+n], min(at, pieceWindow))
		if err != nil {
			return nil, err
		}
		parts = append(parts, packed)
		size += len(packed)
		at += n
	}
	out := append(make([]byte, 0, size), 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255) // no name, no time, whatever system
	for _, part := range parts {
		out = append(out, part...)
	}
	out = append(out, 1, 0, 0, 0xff, 0xff) // an empty block, the last one
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(content))
	return binary.LittleEndian.AppendUint32(out, uint32(len(content))), nil
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
		// One line in four ends a piece.
		if at+line <= pieceMost && maphash.Bytes(p.seed, content[at:at+line])%4 == 0 {
			return at + line
		}
		at += line
	}
	return min(len(content), pieceMost)
}

// piece compresses what stands in content behind the window.
func (p *pieces) piece(w *pieceWriter, content []byte, window int) ([]byte, error) {
	key := pieceKey{maphash.Bytes(p.seed, content), crc32.ChecksumIEEE(content[window:]), window, len(content) - window, w.level}
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
	w.ResetDict(&buf, content[:window])
	if _, err := w.Write(content[window:]); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	packed = bytes.Clone(buf.Bytes())
	p.mu.Lock()
	p.now[key] = packed
	p.mu.Unlock()
	return packed, nil
}

// newPieceWriter makes the writer for pieces: one for all files of a worker.
func newPieceWriter(level int) (*pieceWriter, error) {
	w, err := flate.NewWriter(io.Discard, level)
	return &pieceWriter{w, level}, err
}
