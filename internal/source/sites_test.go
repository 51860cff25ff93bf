package source

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/sitegen/data"
)

func newSites(t *testing.T, once bool, places ...string) *Sites {
	t.Helper()
	cfg := settingsOf(t, map[string]string{"site_timeout": "2s"})
	cfg.Once = once
	var sites []config.Site
	for i, place := range places {
		sites = append(sites, config.Site{Name: fmt.Sprintf("s%d", i), Place: place})
	}
	s, err := NewSites(Options{Config: cfg}, sites)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSitesAreReadSideBySide: each costs its own line, whatever it does, and all together no more than one of them.
func TestSitesAreReadSideBySide(t *testing.T) {
	summary := sitetest.Site{}.Files(t)[data.SummaryPath]
	answers := func(content string) string {
		return sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/lab/"+data.SummaryPath {
				http.NotFound(w, r)
			}
			_, _ = io.WriteString(w, content)
		}) + "/lab/"
	}
	dir, end := t.TempDir(), make(chan struct{})
	sitetest.Site{}.Write(t, dir)
	hangs := sitetest.Serve(t, func(http.ResponseWriter, *http.Request) { <-end })
	drips := sitetest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(summary[:100])
		_ = http.NewResponseController(w).Flush()
		<-end
	})
	t.Cleanup(func() { close(end) })
	circles := sitetest.Serve(t,
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	s := newSites(t, true, answers(string(summary)), dir, hangs, drips, circles, answers("<html>"),
		answers(strings.Repeat(" ", data.MaxSummaryBytes)+string(summary)), "http://127.0.0.1:1/", dir+"/none",
		strings.Replace(answers(string(summary)), "http://", "http://eva:secret@", 1))
	var got []string
	for _, one := range s.Read(t.Context(), sitetest.Now, nil) {
		line := "nothing"
		if one.Summary != nil {
			line = fmt.Sprint(one.Summary.Own.Totals.GPUs.Free())
		}
		got = append(got, line+" "+one.Fault)
		if strings.Contains(one.URL+one.Place+one.Fault, "secret") {
			t.Errorf("it tells the password: %+v", one)
		}
	}
	for i, want := range []string{"3 ", "3 ", "no answer within 2s", "no complete answer within 2s", "circles",
		"login in front of it", "larger than 64 KiB",
		"refused", "no such file", "3 "} {
		if !strings.Contains(got[i], want) {
			t.Errorf("s%d: %q, want %q", i, got[i], want)
		}
	}
}

// TestSitesAreReadWhenTheyAreDue: beside the generations, each when its next generation is there, and what was last
// read stays.
func TestSitesAreReadWhenTheyAreDue(t *testing.T) {
	at, asked, answer := sitetest.Now, make(chan struct{}, 100), make(chan bool, 100)
	place := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked <- struct{}{}; !<-answer {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(sitetest.Site{At: at}.Files(t)[data.SummaryPath])
	})
	s := newSites(t, false, place)
	look := func(after time.Duration) board.Site { return s.Read(t.Context(), sitetest.Now.Add(after), nil)[0] }
	settled := func(after time.Duration) board.Site {
		t.Helper()
		for end := time.Now().Add(need.Patience); ; time.Sleep(time.Millisecond) {
			s.sites[0].mu.Lock()
			busy := s.sites[0].busy
			s.sites[0].mu.Unlock()
			if !busy {
				return look(after)
			}
			if time.Now().After(end) {
				t.Fatal("it is still being read")
			}
		}
	}
	if one := look(0); one.Summary != nil || one.Fault != "" {
		t.Errorf("before it answered: %+v", one)
	}
	<-asked
	look(10 * time.Second) // it is being read
	answer <- true
	if one := settled(10 * time.Second); one.Summary == nil || !one.ReadAt.Equal(at) {
		t.Errorf("after it answered: %+v", one)
	}
	look(20 * time.Second) // the next generation is due now
	look(22 * time.Second)
	<-asked
	answer <- false
	if one := settled(23 * time.Second); one.Summary == nil || one.Fault == "" || !one.ReadAt.Equal(at) {
		t.Errorf("after a failure: %+v", one)
	}
	look(51 * time.Second)
	look(52 * time.Second)
	<-asked
	answer <- true
	if one := settled(53 * time.Second); one.Fault != "" {
		t.Errorf("after it recovered: %+v", one)
	}
	if len(asked) > 0 {
		t.Errorf("it was asked %d times more", len(asked))
	}
	// Another process knows what this one did, unless the name means another place now.
	last := []board.Site{look(53 * time.Second)}
	if one := newSites(t, false, place).Read(t.Context(), at.Add(53*time.Second), last)[0]; one.Summary == nil {
		t.Errorf("after a restart: %+v", one)
	}
	answer <- true
	if one := newSites(t, true, t.TempDir()).Read(t.Context(), at, last)[0]; one.Summary != nil {
		t.Errorf("another site has its numbers: %+v", one)
	}
}
