package publisher

import (
	"bytes"
	"errors"
	"testing"
)

// sink takes what is written, or refuses it.
type sink struct {
	pieces [][]byte
	broken error
	closed bool
	wrote  func(b []byte) // may be nil
}

func (s *sink) Write(b []byte) (int, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	s.pieces = append(s.pieces, append([]byte{}, b...))
	if s.wrote != nil {
		s.wrote(b)
	}
	return len(b), nil
}

func (s *sink) Close() error { s.closed = true; return nil }

// request is a packet of SFTP as the library writes it, in two pieces.
func request(t *testing.T, p *pairing, body string) {
	t.Helper()
	if _, err := p.Write([]byte{0, 0, 0, byte(len(body)), body[0]}); err != nil {
		t.Error(err)
	}
	if _, err := p.Write([]byte(body[1:])); err != nil {
		t.Error(err)
	}
}

func TestTwoRequestsGoOutAsOne(t *testing.T) {
	// As on a real line, nobody is answered before the request has been sent.
	answer := make(chan error, 1)
	out := &sink{wrote: func(b []byte) {
		if bytes.Contains(b, []byte("first")) {
			answer <- nil
		}
	}}
	p := &pairing{WriteCloser: out, whole: make(chan struct{}, 2)}
	refused := errors.New("refused")
	for range 50 {
		out.pieces = nil
		request(t, p, "before")
		one, two := p.pair(
			func() error { request(t, p, "first"); return <-answer },
			func() error { request(t, p, "second"); return refused })
		if one != nil || two != refused {
			t.Fatalf("the answers are %v and %v", one, two)
		}
		request(t, p, "after")
		if len(out.pieces) != 5 || string(out.pieces[2]) != "\x00\x00\x00\x05first\x00\x00\x00\x06second" {
			t.Fatalf("written: %q", out.pieces)
		}
	}
}

func TestPairOverALineThatIsGone(t *testing.T) {
	gone := errors.New("gone")
	out := &sink{}
	p := &pairing{WriteCloser: out, whole: make(chan struct{}, 2)}
	one, two := p.pair(func() error { return gone }, func() error { t.Error("the second was asked all the same"); return nil })
	if one != gone || two != gone || len(out.pieces) > 0 {
		t.Errorf("%v, %v, written %q", one, two, out.pieces)
	}
	// It breaks between the two: neither is sent without the other being tried.
	out.broken = gone
	ended := make(chan struct{})
	one, two = p.pair(
		func() error { request(t, p, "first"); <-ended; return gone },
		func() error { request(t, p, "second"); close(ended); return gone })
	if one != gone || two != gone || !out.closed {
		t.Errorf("%v, %v, closed %v: nobody would ever be answered", one, two, out.closed)
	}
}
