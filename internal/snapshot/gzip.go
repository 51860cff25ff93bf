package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// An Encoder encodes bundles and hours. It reuses its compressor, whose setup is most of
// the cost of a small file. The zero value is ready to use. It is for one goroutine.
type Encoder struct {
	buf bytes.Buffer
	zip *gzip.Writer
}

// A Decoder decodes bundles and hours. It reuses its buffers. The zero value is ready to
// use. It is for one goroutine.
type Decoder struct {
	in  bytes.Reader
	raw bytes.Buffer
	out bytes.Buffer
	zip *gzip.Reader
}

// compress returns parts as one gzip member. The result depends on the parts only: the
// header has no time and no name.
func (e *Encoder) compress(parts ...[]byte) ([]byte, error) {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	if total > MaxDecodedBytes {
		return nil, refuse(BadTooLarge, "%d bytes, and %d is the most that a reader takes", total, MaxDecodedBytes)
	}
	e.buf.Reset()
	if e.zip == nil {
		zip, err := gzip.NewWriterLevel(&e.buf, 6)
		if err != nil {
			return nil, err
		}
		e.zip = zip
	} else {
		e.zip.Reset(&e.buf)
	}
	for _, p := range parts {
		if _, err := e.zip.Write(p); err != nil {
			return nil, fmt.Errorf("compressing: %w", err)
		}
	}
	if err := e.zip.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if e.buf.Len() > MaxFileBytes {
		return nil, refuse(BadTooLarge, "%d bytes compressed, and %d is the most that a reader takes", e.buf.Len(), MaxFileBytes)
	}
	return bytes.Clone(e.buf.Bytes()), nil
}

// expand reads one gzip member from r, within the limits, and returns its content. The
// result is valid until the next call.
func (d *Decoder) expand(r io.Reader) ([]byte, error) {
	d.raw.Reset()
	if _, err := d.raw.ReadFrom(io.LimitReader(r, MaxFileBytes+1)); err != nil {
		return nil, err
	}
	switch n := d.raw.Len(); {
	case n == 0:
		return nil, refuse(BadEmpty, "the file is empty")
	case n > MaxFileBytes:
		return nil, refuse(BadTooLarge, "the file is larger than %d bytes", MaxFileBytes)
	}
	d.in.Reset(d.raw.Bytes())
	var err error
	if d.zip == nil {
		d.zip, err = gzip.NewReader(&d.in)
	} else {
		err = d.zip.Reset(&d.in)
	}
	if err != nil {
		d.zip = nil // not every version can reset a reader that failed at the header
		return nil, refuse(BadGzip, "reading the gzip header: %w", noEOF(err))
	}
	d.zip.Multistream(false)
	d.out.Reset()
	if _, err := d.out.ReadFrom(io.LimitReader(d.zip, MaxDecodedBytes+1)); err != nil {
		return nil, refuse(BadGzip, "decompressing: %w", noEOF(err))
	}
	switch {
	case d.out.Len() > MaxDecodedBytes:
		return nil, refuse(BadTooLarge, "it holds more than %d bytes", MaxDecodedBytes)
	case d.in.Len() > 0:
		return nil, refuse(BadTrailing, "%d bytes after the end of the gzip stream", d.in.Len())
	case d.out.Len() == 0:
		return nil, refuse(BadEmpty, "the gzip stream is empty")
	}
	return d.out.Bytes(), nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// document returns the end of the JSON value at the start of data. It looks at brackets
// and quotes only, and refuses values that are nested too deeply for the decoder.
func document(data []byte) (end int, err error) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > MaxDepth {
				return 0, refuse(BadDepth, "nested deeper than %d", MaxDepth)
			}
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1, nil
			}
		}
	}
	return len(data), nil
}
