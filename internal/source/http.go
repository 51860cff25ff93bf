package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"gpuboard/internal/failure"
	"gpuboard/sitegen/data"
)

// siteClient asks web servers that may be slow, wrong or hostile. The timeout
// takes in everything, the last byte of the answer too.
func siteClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
			DialContext: (&net.Dialer{Timeout: timeout}).DialContext, TLSHandshakeTimeout: timeout,
			IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 5:
				return errors.New("it redirects in circles")
			case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
				return errors.New("it redirects to an address without encryption")
			}
			return nil
		},
	}
}

// fetch gets a file of the site. The body is bounded by its reader, compressed or not.
func (s *Source) fetch(ctx context.Context, path string) (io.ReadCloser, error) {
	at := s.site.JoinPath(path)
	req := &http.Request{URL: at, Header: http.Header{"User-Agent": {"gpuboard/" + s.opt.Version}}}
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, failure.New(failure.ExitTryAgain, s.asking(at, err), "")
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	resp.Body.Close()
	return nil, s.answered(at, resp.StatusCode)
}

// answered is the error of an answer by its status.
func (s *Source) answered(at *url.URL, code int) error {
	err := fmt.Errorf("asking %s: it answers %d %s", at.Redacted(), code, http.StatusText(code))
	exit, hint := failure.ExitError, ""
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		exit, hint = failure.ExitUsage, "where it wants a password: https://USER:PASSWORD@"+s.site.Host+s.site.Path+
			" as its address, in a file that only you can read"
	case code == http.StatusNotFound || code == http.StatusGone:
		exit, hint, err = failure.ExitUsage, "give the address of the site's front page", notThere{err}
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		exit = failure.ExitTryAgain
	}
	return failure.New(exit, err, hint)
}

// notThere is an answer that means the same as a missing file.
type notThere struct{ error }

func (notThere) Is(target error) bool { return target == fs.ErrNotExist }

// asking makes an error of a failed request without what the library puts in
// front, which repeats the address.
func (s *Source) asking(at *url.URL, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return fmt.Errorf("asking %s: no answer within %s", at.Redacted(), s.cfg.Duration("site_timeout"))
		}
		err = wrapped.Err
	}
	return fmt.Errorf("asking %s: %w", at.Redacted(), err)
}

func (s *Source) unreadable(path string, err error) error {
	exit, hint := failure.ExitTryAgain, ""
	var timeout net.Error
	switch {
	case errors.Is(err, data.ErrSchema):
		exit = failure.ExitUsage
	case errors.Is(err, data.ErrNotBoard):
		exit, hint = failure.ExitError, "is there a login in front of it? Open that address in a browser"
	case errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("no complete answer within %s", s.cfg.Duration("site_timeout"))
	}
	at := s.Name
	if s.site != nil {
		at = s.site.JoinPath(path).Redacted()
	}
	return failure.New(exit, fmt.Errorf("asking %s: %w", at, err), hint)
}
