package sitegen

import (
	"bytes"
	"encoding/binary"
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
// any of its lines do. A piece is a run of a file's parts, and of large parts it
// is cut behind a line; where it ends is decided by what is in it, so that a host
// more or less moves only the cuts beside it. Each piece ends on a byte, so pieces
// stand in one stream like any other blocks (RFC 1951, 3.2.4). It is compressed as
// if all before it had been, and so hardly less well than in one go; that makes it
// a piece of the window before it, too.
// The zero value is ready to use, by one generation at a time.
type pieces struct {
	mu        sync.Mutex
	seed      maphash.Seed
	kept, now map[pieceKey][]byte
}

// A chunk is bytes that stay together, with a sum of them.
type chunk struct {
	bytes []byte
	sum   uint64
	ends  bool // a piece may end with it
}

// pieceKey is a piece by sums of its chunks and of those that the window before
// it lies in.
type pieceKey struct {
	sum, before uint64
	size        int
	level       int
}

// A pieceWriter compresses pieces at one level.
type pieceWriter struct {
	*flate.Writer
	level        int
	window, made bytes.Buffer // used again for each piece
	upTo         int          // the chunk of the file before which it stands, 0 for none
}

// begin starts a generation: what the last one did not use is forgotten.
func (p *pieces) begin() {
	if p.now == nil {
		p.seed = maphash.MakeSeed()
	}
	p.kept, p.now = p.now, map[pieceKey][]byte{}
}

// gzip returns the gzip file of a content in parts.
func (p *pieces) gzip(w *pieceWriter, content [][]byte) ([]byte, error) {
	chunks := p.chunks(content)
	w.upTo = 0
	var made [][]byte
	size := 64
	for at := 0; at < len(chunks); {
		n := cut(chunks[at:])
		packed, err := p.piece(w, chunks[:at+n], at)
		if err != nil {
			return nil, err
		}
		made = append(made, packed)
		size += len(packed)
		at += n
	}
	out := append(make([]byte, 0, size), 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255) // no name, no time, whatever system
	for _, part := range made {
		out = append(out, part...)
	}
	out = append(out, 1, 0, 0, 0xff, 0xff) // an empty block, the last one
	out = binary.LittleEndian.AppendUint32(out, checksum(content))
	return binary.LittleEndian.AppendUint32(out, uint32(sizeOf(content))), nil
}

// leastEnd is how long a part is at least that may end a piece: shorter ones
// are alike too often.
const leastEnd = 256

// chunks cuts what is large and adds everything up.
func (p *pieces) chunks(content [][]byte) []chunk {
	chunks := make([]chunk, 0, len(content))
	for _, part := range content {
		for len(part) >= 2*pieceLeast {
			n := p.line(part)
			chunks = append(chunks, chunk{part[:n], maphash.Bytes(p.seed, part[:n]), true})
			part = part[n:]
		}
		sum := maphash.Bytes(p.seed, part)
		// One part in four ends a piece.
		chunks = append(chunks, chunk{part, sum, len(part) >= leastEnd && sum%4 == 0})
	}
	return chunks
}

// line returns how much of a large part is a chunk.
func (p *pieces) line(part []byte) int {
	for at := pieceLeast; at < min(len(part), pieceMost); {
		line := bytes.IndexByte(part[at:], '\n') + 1
		if line == 0 {
			break
		}
		// One line in four ends one.
		if at+line <= pieceMost && maphash.Bytes(p.seed, part[at:at+line])%4 == 0 {
			return at + line
		}
		at += line
	}
	return min(len(part), pieceMost)
}

// cut returns of how many chunks the first piece is made.
func cut(chunks []chunk) int {
	size := 0
	for i, c := range chunks {
		if i > 0 && size+len(c.bytes) > pieceMost {
			return i
		}
		if size += len(c.bytes); size >= pieceLeast && c.ends {
			return i + 1
		}
	}
	return len(chunks)
}

// piece compresses the chunks from a number on, behind those before.
func (p *pieces) piece(w *pieceWriter, chunks []chunk, from int) ([]byte, error) {
	key := pieceKey{sum: p.sum(chunks[from:]), level: w.level}
	for _, c := range chunks[from:] {
		key.size += len(c.bytes)
	}
	first, window := from, 0
	for first > 0 && window < pieceWindow {
		first--
		window += len(chunks[first].bytes)
	}
	key.before = p.sum(chunks[first:from])
	p.mu.Lock()
	packed, found := p.kept[key]
	if !found {
		packed, found = p.now[key]
	}
	if found {
		p.now[key] = packed
	}
	p.mu.Unlock()
	if found {
		return packed, nil
	}
	w.made.Reset()
	// What it made last is the window still, if the piece before was new, too.
	if from == 0 || w.upTo != from {
		w.window.Reset()
		for _, c := range chunks[first:from] {
			more := min(len(c.bytes), max(0, window-pieceWindow))
			w.window.Write(c.bytes[more:])
			window -= more
		}
		w.ResetDict(&w.made, w.window.Bytes())
	}
	for _, c := range chunks[from:] {
		if _, err := w.Write(c.bytes); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	w.upTo = len(chunks)
	packed = bytes.Clone(w.made.Bytes())
	p.mu.Lock()
	p.now[key] = packed
	p.mu.Unlock()
	return packed, nil
}

// sum adds up sums and lengths.
func (p *pieces) sum(chunks []chunk) uint64 {
	all := make([]byte, 0, 16*len(chunks))
	for _, c := range chunks {
		all = binary.LittleEndian.AppendUint64(all, c.sum)
		all = binary.LittleEndian.AppendUint64(all, uint64(len(c.bytes)))
	}
	return maphash.Bytes(p.seed, all)
}

// newPieceWriter makes a writer for pieces.
func newPieceWriter(level int) (*pieceWriter, error) {
	w, err := flate.NewWriter(io.Discard, level)
	return &pieceWriter{Writer: w, level: level}, err
}
