package publisher

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"

	"gpuboard/internal/objectstore"
)

// A bucket is an s3 target. Its tag is what the latest file had when this process wrote or read it; "" is unknown.
type bucket struct {
	*objectstore.Bucket
	tag string
}

func openBucket(t Target) (*bucket, error) {
	b, err := objectstore.Open(t.String(), os.Getenv)
	if err != nil {
		return nil, configError(CodeTarget, "", err)
	}
	return &bucket{Bucket: b}, nil
}

// put replaces one object. A latest file replaces the one that was there when this process began or wrote last, and
// nothing else: a request that a store carries out late must not replace a newer file.
func (b *bucket) put(ctx context.Context, name string, data []byte) error {
	if name != LatestName {
		p := propertiesOf(name)
		if p.Encoding == "gzip" {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(data) // a buffer takes everything
			_ = w.Close()
			data = packed.Bytes()
		}
		_, err := b.Put(ctx, name, data, p, "")
		return storeError(err)
	}
	tag, err := b.latest(ctx)
	if err != nil {
		return storeError(err)
	}
	b.tag, err = b.Put(ctx, name, data, propertiesOf(name), tag)
	return storeError(err)
}

// latest returns the tag that the latest file has.
func (b *bucket) latest(ctx context.Context) (string, error) {
	if b.tag != "" {
		return b.tag, nil
	}
	_, tag, err := b.Get(ctx, LatestName, maxLatestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return objectstore.Missing, nil
	}
	return tag, err
}

// maxLatestBytes bounds what is read to learn a tag.
const maxLatestBytes = 16 << 20

func (b *bucket) remove(ctx context.Context, name string) error {
	return storeError(b.Remove(ctx, name))
}

// propertiesOf returns what a store says of a file. Pages are stored compressed, as browsers take them; texts and JSON
// are plain, because curl does not unpack them unless told to.
func propertiesOf(name string) objectstore.Properties {
	p := objectstore.Properties{Type: "application/octet-stream", CacheControl: "no-cache"}
	if strings.HasPrefix(name, "assets/") { // named after their content
		p.CacheControl = "public, max-age=31536000, immutable"
	}
	kinds := map[string]struct{ kind, encoding string }{
		".html": {"text/html; charset=utf-8", "gzip"},
		".css":  {"text/css; charset=utf-8", "gzip"},
		".js":   {"text/javascript; charset=utf-8", "gzip"},
		".svg":  {"image/svg+xml", "gzip"},
		".json": {"application/json", ""},
		".txt":  {"text/plain; charset=utf-8", ""},
		".ansi": {"text/plain; charset=utf-8", ""},
		".csv":  {"text/csv; charset=utf-8", ""},
		".ics":  {"text/calendar; charset=utf-8", ""},
		".atom": {"application/atom+xml", ""},
		".png":  {"image/png", ""},
	}
	if k, known := kinds[path.Ext(name)]; known {
		p.Type, p.Encoding = k.kind, k.encoding
	}
	return p
}

// storeError gives an error of a store its code; nil for nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	e, _ := errors.AsType[*objectstore.Error](err)
	switch {
	case errors.Is(err, objectstore.ErrChanged):
		return &Error{Code: CodeStore, Err: err, hint: "two nodes may push to one target: each needs a prefix of its own"}
	case e == nil:
		return &Error{Code: CodeStore, Err: err}
	case e.Permanent:
		return configError(CodeStoreRefused, e.Hint, err)
	}
	return &Error{Code: CodeStore, Err: err, hint: e.Hint}
}
