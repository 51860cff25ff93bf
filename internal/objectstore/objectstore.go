// Package objectstore reads and writes objects in one bucket of an S3-compatible object store. It knows nothing of what
// they mean.
package objectstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"gpuboard/internal/snapshot"
)

const (
	requestTimeout = 30 * time.Second
	tries          = 3 // of one request that a store refuses for the moment
)

// A Bucket is a bucket, or what lies below a prefix in it. Its methods may be called from several goroutines.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string // "" or with a slash at its end
	target string // as it was named
}

// A Properties is what a store says of an object to those who read it.
type Properties struct{ Type, CacheControl, Encoding string }

// Parse splits s3://bucket/prefix.
func Parse(target string) (bucket, prefix string, err error) {
	u, err := url.Parse(target)
	switch {
	case err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", "", fmt.Errorf("%q is not of the form s3://bucket/prefix", snapshot.Clip(target, 200))
	case u.Path == "" || u.Path == "/":
		return u.Host, "", nil
	}
	prefix = strings.Trim(u.Path, "/")
	if !fs.ValidPath(prefix) {
		return "", "", fmt.Errorf("%q has a prefix that is not a clean path", snapshot.Clip(target, 200))
	}
	return u.Host, prefix + "/", nil
}

// Open names a bucket as s3://bucket/prefix, and connects to nothing. Keys come from AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, from ~/.aws/credentials, or from the machine's role; AWS_ENDPOINT_URL names a store that is
// not Amazon's, and AWS_REGION the region.
func Open(target string, getenv func(string) string) (*Bucket, error) {
	name, prefix, err := Parse(target)
	if err != nil {
		return nil, err
	}
	region := cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))
	o := &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Timeout: requestTimeout}},
		}),
		Secure: true, Region: region, MaxRetries: tries,
	}
	host := "s3.amazonaws.com"
	if endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL")); endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("AWS_ENDPOINT_URL: %q is not of the form https://host:port",
				snapshot.Clip(endpoint, 200))
		}
		host, o.Secure, o.BucketLookup = u.Host, u.Scheme == "https", minio.BucketLookupPath
		o.Region = cmp.Or(region, "us-east-1") // else each process asks for the region first
	}
	client, err := minio.New(host, o)
	if err != nil {
		return nil, fmt.Errorf("preparing to reach %s: %w", target, err)
	}
	return &Bucket{client: client, name: name, prefix: prefix, target: target}, nil
}

// Put replaces an object and returns its tag. If match is not "", it does so only while the object has that tag; else
// the error wraps [ErrChanged].
func (b *Bucket) Put(
	ctx context.Context, name string, data []byte, p Properties, match string,
) (tag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o := minio.PutObjectOptions{
		ContentType: p.Type, CacheControl: p.CacheControl, ContentEncoding: p.Encoding, DisableMultipart: true,
		// Else "aws-chunked" comes before the encoding where there is no TLS, stores keep it, and browsers do not know it.
		DisableContentSha256: true,
	}
	switch match {
	case "":
	case Missing:
		o.SetMatchETagExcept("*")
	default:
		o.SetMatchETag(match)
	}
	info, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	if err != nil {
		return "", b.explain("writing "+name, err)
	}
	return info.ETag, nil
}

// Missing, as the tag that an object is to have, is that of one that does not exist.
const Missing = "missing"

// ErrChanged is wrapped by the error of a Put whose object has another tag.
var ErrChanged = errors.New("somebody else has written it")

// Get reads an object of at most limit bytes. The error of a missing one wraps [fs.ErrNotExist].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) (data []byte, tag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain("reading "+name, err)
	}
	defer object.Close()
	if data, err = io.ReadAll(io.LimitReader(object, limit+1)); err != nil {
		return nil, "", b.explain("reading "+name, err)
	}
	if int64(len(data)) > limit {
		return nil, "", fmt.Errorf("reading %s: it has more than %d bytes", name, limit)
	}
	info, err := object.Stat()
	if err != nil {
		return nil, "", b.explain("reading "+name, err)
	}
	return data, info.ETag, nil
}

// Remove removes an object. One that is missing is no error.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.explain("removing "+name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

// An Object is one of a listing.
type Object struct {
	Name, Tag string
	Size      int64
}

// List returns the objects below a prefix of names, at most limit of them, and whether there are more.
func (b *Bucket) List(ctx context.Context, prefix string, limit int) (list []Object, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}
	for info := range b.client.ListObjectsIter(ctx, b.name, o) {
		if info.Err != nil {
			return nil, false, b.explain("listing", info.Err)
		}
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, Object{Name: strings.TrimPrefix(info.Key, b.prefix), Tag: info.ETag, Size: info.Size})
	}
	return list, false, nil
}

// An Error says why a store did not do what was asked, and what to do about it.
type Error struct {
	Hint string
	// Permanent means that somebody must change something first.
	Permanent bool
	Err       error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (b *Bucket) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	failed := Error{}
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", doing, fs.ErrNotExist)
	case answer.StatusCode == http.StatusPreconditionFailed, answer.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s in %s: %w", doing, b.target, ErrChanged)
	case answer.Code == minio.NoSuchBucket:
		failed.Permanent, failed.Hint = true, "create the bucket "+b.name+", or name another one"
	case answer.Code == minio.RequestTimeTooSkewed:
		failed.Permanent, failed.Hint = true, "this machine's clock is wrong; see: timedatectl"
	case answer.StatusCode == http.StatusForbidden, answer.StatusCode == http.StatusUnauthorized:
		failed.Permanent = true
		failed.Hint = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what this key may do in the bucket " +
			b.name
	}
	// What the store says is its own text.
	text := snapshot.Text(err.Error(), snapshot.MaxTextBytes)
	failed.Err = fmt.Errorf("%s in %s: %s", doing, b.target, text)
	return &failed
}
