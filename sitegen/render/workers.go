package render

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// InParallel calls do for every number below n, as many at a time as there are
// processors. After an error it calls no more, and returns the first.
func InParallel(n int, do func(i int) error) error {
	workers, failed := errgroup.WithContext(context.Background())
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		if failed.Err() != nil {
			break
		}
		workers.Go(func() error { return do(i) })
	}
	return workers.Wait()
}
