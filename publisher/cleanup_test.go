package publisher_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

func TestOldHoursLeaveTheDrop(t *testing.T) {
	const old, new, never = "hour-20261119T04-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz", "hour-20261117T01-b1.jsonl.gz"
	for name, drop := range map[string]func(t *testing.T) (o publisher.Options, dir string, cleansItself bool){
		"openssh write-only account": func(t *testing.T) (publisher.Options, string, bool) {
			s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
			return toServer(t, s, s.Port), s.Dir, false
		},
		"openssh that removes nothing": func(t *testing.T) (publisher.Options, string, bool) {
			s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P remove"})
			return toServer(t, s, s.Port), s.Dir, true
		},
		"gpuboard receive": func(t *testing.T) (publisher.Options, string, bool) {
			o, dir := receiver(t)
			return o, dir, true
		},
		"local": func(t *testing.T) (publisher.Options, string, bool) {
			o, dir := localOptions(t)
			return o, dir, false
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir, cleansItself := drop(t)
			p := open(t, o)
			publish(t, p, newMemorySpool(publisher.LatestName, old, new))
			src := newMemorySpool(publisher.LatestName)
			src.expired = []string{never, old}
			publish(t, p, src)
			if want := []string{never, old}; !slices.Equal(src.withdrawn, want) {
				t.Errorf("withdrawn %q, want %q", src.withdrawn, want)
			}
			have := content(t, dir)
			if _, there := have[old]; there != cleansItself {
				t.Errorf("%s is there: %v, want %v", old, there, cleansItself)
			}
			if have[publisher.LatestName] == "" || have[new] == "" {
				t.Errorf("the drop has lost more than it should: %d files", len(have))
			}
		})
	}
}

// TestExpiredFilesLeaveInTheirOrder: of many, some leave with each push. If the server stops answering, those that it
// has removed are told.
func TestExpiredFilesLeaveInTheirOrder(t *testing.T) {
	const most = 24
	for _, tt := range []struct {
		expired   int
		fails     string
		withdrawn int
	}{
		{0, "", 0}, {3, "", 3}, {3, "remove old00", 0}, {3, "remove old02", 2}, {most + 1, "", most},
	} {
		s := &pipeServer{fails: tt.fails}
		p := open(t, s.options(t))
		src := newMemorySpool(publisher.LatestName)
		for i := range tt.expired {
			src.expired = append(src.expired, fmt.Sprintf("old%02d", i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
		ended := make(chan error, 1)
		go func() {
			_, err := p.Publish(ctx, src)
			ended <- err
		}()
		if tt.fails != "" {
			eventually(t, "the server does not answer", func() bool { return slices.Contains(s.requests(), tt.fails) })
			cancel()
		}
		if err := <-ended; (err == nil) != (tt.fails == "") {
			t.Errorf("%+v: %v", tt, err)
		}
		cancel()
		if want := src.expired[:tt.withdrawn]; !slices.Equal(src.withdrawn, want) {
			t.Errorf("%+v: withdrawn %q, want %q", tt, src.withdrawn, want)
		}
	}
}
