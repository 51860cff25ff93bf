package publisher

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gpuboard/internal/testenv/sshtest"
)

func TestOldHoursLeaveTheDrop(t *testing.T) {
	const old, new, never = "hour-20261119T04-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz", "hour-20261117T01-b1.jsonl.gz"
	for name, drop := range map[string]func(t *testing.T) (o Options, dir string, cleansItself bool){
		"openssh write-only account": func(t *testing.T) (Options, string, bool) {
			s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
			return toServer(t, s, s.Port), s.Dir, false
		},
		"openssh that removes nothing": func(t *testing.T) (Options, string, bool) {
			s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P remove"})
			return toServer(t, s, s.Port), s.Dir, true
		},
		"gpuboard receive": func(t *testing.T) (Options, string, bool) {
			o, dir := receiver(t)
			return o, dir, true
		},
		"local": func(t *testing.T) (Options, string, bool) {
			o, dir := localOptions(t)
			return o, dir, false
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir, cleansItself := drop(t)
			p := open(t, o)
			publish(t, p, newMemorySpool(LatestName, old, new))
			src := newMemorySpool(LatestName)
			src.expired = []string{never, old}
			publish(t, p, src)
			if want := []string{never, old}; !slices.Equal(src.withdrawn, want) {
				t.Errorf("withdrawn %q, want %q", src.withdrawn, want)
			}
			have := content(t, dir)
			if _, there := have[old]; there != cleansItself {
				t.Errorf("%s is there: %v, want %v", old, there, cleansItself)
			}
			if have[LatestName] == "" || have[new] == "" {
				t.Errorf("the drop has lost more than it should: %d files", len(have))
			}
		})
	}
}

func TestRemoveExpired(t *testing.T) {
	o, _ := localOptions(t)
	p := open(t, o)
	broken := errors.New("broken")
	for _, tt := range []struct {
		expired, fails int // the number that fails; none if it is larger
		withdrawn      int
		err            error
	}{
		{0, 9, 0, nil}, {3, 9, 3, nil}, {3, 0, 0, broken}, {3, 2, 2, broken}, {maxExpired + 1, 99, maxExpired, nil},
	} {
		src := newMemorySpool()
		for i := range tt.expired {
			src.expired = append(src.expired, fmt.Sprint(i))
		}
		calls := 0
		err := p.removeExpired(src, func(string) error {
			if calls++; calls > tt.fails {
				return broken
			}
			return nil
		})
		if !errors.Is(err, tt.err) || len(src.withdrawn) != tt.withdrawn {
			t.Errorf("%+v: %d withdrawn, %v", tt, len(src.withdrawn), err)
		}
	}
}
