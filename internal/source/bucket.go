package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gpuboard/internal/failure"
	"gpuboard/internal/objectstore"
	"gpuboard/sitegen/data"
)

// inBucket takes a site that publish_to: copied into a bucket.
func (s *Source) inBucket(address string) (err error) {
	if s.bucket, err = objectstore.Open(address, os.Getenv); err != nil {
		return failure.Usage("write s3://bucket/prefix, as publish_to: has it", "%w", err)
	}
	s.Name = address
	return nil
}

// get reads an object of the site.
func (s *Source) get(ctx context.Context, path string) (io.ReadCloser, error) {
	within, cancel := context.WithTimeout(ctx, s.cfg.Duration("site_timeout"))
	defer cancel()
	content, _, err := s.bucket.Get(within, path, data.MaxBoardBytes)
	if err == nil || ctx.Err() != nil {
		return io.NopCloser(bytes.NewReader(content)), ctx.Err()
	}
	exit, hint := failure.ExitTryAgain, ""
	switch refused, _ := errors.AsType[*objectstore.Error](err); {
	case errors.Is(err, fs.ErrNotExist):
		exit, hint = failure.ExitUsage, "give the bucket and prefix that publish_to: of that board has"
	case refused != nil && refused.Permanent:
		exit, hint = failure.ExitUsage, refused.Hint
	}
	return nil, failure.New(exit, fmt.Errorf("asking %s: %w", s.Name, err), hint)
}
