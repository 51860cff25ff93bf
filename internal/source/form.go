package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// maxAnswer bounds what a form may say.
const maxAnswer = 16 << 10

// Form returns the source at whose address the site's booking form answers, nil for none, and for whom it books.
func (s *Source) Form(ctx context.Context, said *board.Summary) (form *Source, name string) {
	form = s
	if s.site == nil {
		form = &Source{opt: s.opt, cfg: s.cfg, Cluster: s.Cluster}
		if said.URL == "" || form.at(said.URL) != nil {
			return nil, ""
		}
	}
	type capabilities struct {
		Booking bool   `json:"booking"`
		Name    string `json:"name"`
	}
	able, err := readFile(ctx, form, "book/capabilities.json", func(r io.Reader) (able capabilities, err error) {
		return able, json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&able)
	})
	if err != nil || !able.Booking {
		return nil, ""
	}
	return form, snapshot.Text(able.Name, snapshot.MaxNameBytes)
}

// FormAddress is the address of the form for some places, without a password.
func (s *Source) FormAddress(places []string) string {
	at := s.site.JoinPath("book/")
	at.User, at.RawQuery = nil, url.Values{"at": places}.Encode()
	return at.String()
}

// SendForm sends what the fields of the form say, and returns the IDs of the bookings that were saved.
func (s *Source) SendForm(ctx context.Context, places []string, fields url.Values) (saved []string, err error) {
	at := s.site.JoinPath("book/")
	at.RawQuery = url.Values{"at": places, "lang": {"en"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(fields.Encode()))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", at.Redacted(), err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/plain"},
		"User-Agent": {"gpuboard/" + s.opt.Version}, "Origin": {at.Scheme + "://" + at.Host},
	}
	client := *s.client // an answer that leads elsewhere is one
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, failure.New(failure.ExitTryAgain, s.asking(at, err),
			"gpuboard status "+s.Cluster+" shows whether it was saved")
	}
	defer resp.Body.Close()
	if to, err := resp.Location(); err == nil && resp.StatusCode == http.StatusSeeOther {
		if saved = to.Query()["saved"]; len(saved) > 0 {
			return saved, nil
		}
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, failure.Usage("gpuboard status "+s.Cluster+" lists what there is", "there is no %s",
			strings.Join(places, " "))
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") ||
		resp.StatusCode == http.StatusUnauthorized {
		return nil, s.answered(at, resp.StatusCode)
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, s.unreadable("book/", err)
	}
	exit := failure.ExitError
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		exit = failure.ExitTryAgain
	}
	return nil, failure.New(exit, errors.New(strings.TrimSpace(string(said))), "its form: "+s.FormAddress(places))
}
