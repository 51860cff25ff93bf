package sitegen

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// compressors are the writers of one worker by their levels. Making one costs more
// than a page, so each is made once, and used by the next generation, too.
type compressors map[int]*gzip.Writer

// compressorPool is the compressors that no worker uses.
type compressorPool struct {
	mu   sync.Mutex
	free []compressors
}

// take returns one of the pool, or a new one.
func (p *compressorPool) take() compressors {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return compressors{}
	}
	c := p.free[last]
	p.free = p.free[:last]
	return c
}

func (p *compressorPool) give(c compressors) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

// gzip returns the gzip file of a content in parts.
func (c compressors) gzip(level int, content [][]byte) ([]byte, error) {
	w := c[level]
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(io.Discard, level); err != nil {
			return nil, err
		}
		c[level] = w
	}
	var buf bytes.Buffer
	w.Reset(&buf)
	for _, part := range content {
		if _, err := w.Write(part); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}
