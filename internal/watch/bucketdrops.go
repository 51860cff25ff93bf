package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

const (
	// fetchFor bounds how long a generation waits for a bucket.
	fetchFor    = 15 * time.Second
	fetchers    = 8
	maxFetched  = 20_000 // objects that are looked at
	fetchedMode = 0o644
)

// bucketDrops are the drops of nodes that push into a bucket. What is new there is copied into the data directory,
// where it is read, checked and swept as if the nodes had pushed there.
type bucketDrops struct {
	bucket *objectstore.Bucket
	dir    string
	tags   sync.Map // of the latest files that were copied, by name
}

// newBucketDrops returns the drops in a bucket, nil for "".
func newBucketDrops(target, data string) (*bucketDrops, error) {
	if target == "" {
		return nil, nil
	}
	bucket, err := objectstore.Open(target, os.Getenv)
	if err != nil {
		return nil, err
	}
	return &bucketDrops{bucket: bucket, dir: filepath.Join(data, "drop")}, nil
}

// fetch copies what is new. Names that no node gives are left alone, and what is wrong with one host's files keeps no
// other's.
func (b *bucketDrops) fetch(ctx context.Context) (problems []snapshot.Problem) {
	if b == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchFor)
	defer cancel()
	var mu sync.Mutex
	said := map[string]bool{}
	add := func(host string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !said[host] && len(problems) < snapshot.MaxErrors {
			said[host] = true
			message := snapshot.Text(err.Error(), snapshot.MaxTextBytes)
			problems = append(problems, snapshot.Problem{Code: "store:failed", Host: host, Message: message})
		}
	}
	objects, more, err := b.bucket.List(ctx, "", maxFetched)
	if more {
		err = fmt.Errorf("the bucket has more than %d objects; the others are not read", maxFetched)
	}
	add("", err)
	var workers errgroup.Group
	workers.SetLimit(fetchers)
	for _, o := range objects {
		host, name, _ := strings.Cut(o.Name, "/")
		if valid, err := snapshot.ParseHost(host); err != nil || valid != host {
			continue
		}
		_, _, hour := spool.HourOf(name)
		if tag, _ := b.tags.Load(o.Name); name == spool.LatestName && tag != o.Tag || hour {
			workers.Go(func() error { add(host, b.copy(ctx, host, name, hour)); return nil })
		}
	}
	_ = workers.Wait() // they return none
	return problems
}

// copy copies one file. A finished hour is removed from the bucket then, so that it is not listed for days.
func (b *bucketDrops) copy(ctx context.Context, host, name string, hour bool) error {
	object := host + "/" + name
	data, tag, err := b.bucket.Get(ctx, object, snapshot.MaxFileBytes)
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, host)
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a drop: %w", err)
	}
	if _, err := atomicfile.Write(filepath.Join(dir, name), data, fetchedMode); err != nil {
		return fmt.Errorf("writing a drop: %w", err)
	}
	if hour {
		return b.bucket.Remove(ctx, object)
	}
	b.tags.Store(object, tag)
	return nil
}
