package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// compressors are reused: one takes 0.8 MB, and a node needs one at every reading.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, 6) // the level is one of those that there are
	return w
}}

// compress returns parts as one gzip member. The result depends on the parts only: the
// header has no time and no name.
func compress(parts ...[]byte) ([]byte, error) {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	if total > MaxDecodedBytes {
		return nil, refuse(BadTooLarge, "%d bytes, and %d is the most that a reader takes", total, MaxDecodedBytes)
	}
	var out bytes.Buffer
	zip := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zip)
	zip.Reset(&out)
	for _, p := range parts {
		if _, err := zip.Write(p); err != nil {
			return nil, fmt.Errorf("compressing: %w", err)
		}
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if out.Len() > MaxFileBytes {
		return nil, refuse(BadTooLarge, "%d bytes compressed, and %d is the most that a reader takes", out.Len(),
			MaxFileBytes)
	}
	return out.Bytes(), nil
}

// expand reads one gzip member from r, within the limits, and returns its content.
func expand(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) == 0:
		return nil, refuse(BadEmpty, "the file is empty")
	case len(raw) > MaxFileBytes:
		return nil, refuse(BadTooLarge, "the file is larger than %d bytes", MaxFileBytes)
	}
	in := bytes.NewReader(raw)
	zip, err := gzip.NewReader(in)
	if err != nil {
		return nil, refuse(BadGzip, "reading the gzip header: %w", noEOF(err))
	}
	zip.Multistream(false)
	data, err := io.ReadAll(io.LimitReader(zip, MaxDecodedBytes+1))
	switch {
	case err != nil:
		return nil, refuse(BadGzip, "decompressing: %w", noEOF(err))
	case len(data) > MaxDecodedBytes:
		return nil, refuse(BadTooLarge, "it holds more than %d bytes", MaxDecodedBytes)
	case in.Len() > 0:
		return nil, refuse(BadTrailing, "%d bytes after the end of the gzip stream", in.Len())
	case len(data) == 0:
		return nil, refuse(BadEmpty, "the gzip stream is empty")
	}
	return data, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Bounds limit how many objects and nulls a document of elsewhere may have: Few in one of any
// length, one more for each EachBytes, and Most at the most.
type Bounds struct{ Few, EachBytes, Most int }

// ofNode are the bounds of a file of a node.
func ofNode() Bounds { return Bounds{fewObjects, MinObjectBytes, MaxObjects} }

// Check refuses the JSON value at the start of data if decoding it could cost far more memory
// than its length: a list of {} or null can become a hundred times as long. It is called before
// a document from elsewhere is decoded. It also refuses values that are nested too deeply.
func (b Bounds) Check(data []byte) error {
	_, err := b.document(data)
	return err
}

// document does what Check does, and returns the end of the value. It looks at brackets, quotes
// and nulls only.
func (b Bounds) document(data []byte) (end int, err error) {
	most := min(b.Most, b.Few+len(data)/b.EachBytes)
	depth, objects := 0, 0
	lists := uint64(0) // a bit for each open bracket, the innermost first: 1 is [
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
			lists <<= 1
			if data[i] == '[' {
				lists |= 1
			} else {
				objects++
			}
		case 'n':
			if lists&3 == 1 { // not in a list of lists, which are columns of numbers
				objects++
			}
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1, nil
			}
			lists >>= 1
		}
		if objects > most {
			return 0, refuse(BadTooLarge, "more than %d objects in %d bytes", most, len(data))
		}
	}
	return len(data), nil
}
