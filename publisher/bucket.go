package publisher

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"

	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
)

// A bucket is an s3 target. Its tag is what the latest file had when this process wrote or read it; "" is unknown.
type bucket struct {
	*objectstore.Bucket
	properties func(name string) objectstore.Properties
	tag        string
}

func openBucket(o Options) (*bucket, error) {
	b, err := objectstore.Open(o.Target.String(), os.Getenv)
	if err != nil {
		return nil, sshclient.Permanent(CodeTarget, "", "%w", err)
	}
	properties := o.Properties
	if properties == nil { // of a node's files
		properties = func(string) objectstore.Properties {
			return objectstore.Properties{Type: "application/gzip", CacheControl: "no-cache"}
		}
	}
	return &bucket{Bucket: b, properties: properties}, nil
}

// put replaces one object. A latest file replaces the one that was there when this process began or wrote last, and
// nothing else: a request that a store carries out late must not replace a newer file. Where another process of
// this node has been faster with a newer one, it is left alone.
func (b *bucket) put(ctx context.Context, name string, data []byte) error {
	p := b.properties(name)
	if name != LatestName {
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
	tag, newer, err := b.latest(ctx, data)
	if err != nil || newer {
		return storeError(err)
	}
	b.tag, err = b.Put(ctx, name, data, p, tag)
	return storeError(err)
}

// latest returns the tag that the latest file has, and whether it is newer than data.
func (b *bucket) latest(ctx context.Context, data []byte) (tag string, newer bool, err error) {
	if b.tag != "" {
		return b.tag, false, nil
	}
	there, tag, err := b.Get(ctx, LatestName, snapshot.MaxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return objectstore.Missing, false, nil
	}
	return tag, err == nil && after(there, data), err
}

// after reports whether one latest file was collected after another in the same boot. Of two boots nobody knows: clocks
// are set back.
func after(one, other []byte) bool {
	a, err := snapshot.DecodeBundle(bytes.NewReader(one))
	if err != nil {
		return false
	}
	b, err := snapshot.DecodeBundle(bytes.NewReader(other))
	return err == nil && a.BootID == b.BootID && a.Snapshot.Seq > b.Snapshot.Seq
}

func (b *bucket) remove(ctx context.Context, name string) error {
	return storeError(b.Remove(ctx, name))
}

// storeError gives an error of a store its code; nil for nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	e, _ := errors.AsType[*objectstore.Error](err)
	switch {
	case errors.Is(err, objectstore.ErrChanged):
		return &Error{Code: CodeStore, Err: err,
			Advice: "two nodes may push to one target: each needs a prefix of its own"}
	case e == nil:
		return &Error{Code: CodeStore, Err: err}
	case e.Permanent:
		return sshclient.Permanent(CodeStoreRefused, e.Hint, "%w", err)
	}
	return &Error{Code: CodeStore, Err: err, Advice: e.Hint}
}
