package publisher

import (
	"slices"
	"testing"

	"gpuboard/internal/testenv/sshtest"
)

// tidyShelf is a shelf that knows what is past its time.
type tidyShelf struct {
	*shelf
	old, withdrawn []string
}

func (s *tidyShelf) Obsolete(string) []string { return s.old }

func (s *tidyShelf) Withdrawn(_ string, names ...string) error {
	s.withdrawn = append(s.withdrawn, names...)
	return nil
}

func TestOldHoursLeaveTheDrop(t *testing.T) {
	const old, new, never = "hour-20261119T04-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz", "hour-20261117T01-b1.jsonl.gz"
	for name, drop := range map[string]func(t *testing.T) (o Options, dir string, tidiesItself bool){
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
			o, dir, tidiesItself := drop(t)
			p := open(t, o)
			publish(t, p, newShelf(LatestName, old, new))
			src := &tidyShelf{shelf: newShelf(LatestName), old: []string{never, old, "../" + LatestName, LatestName}}
			publish(t, p, src)
			if want := []string{never, old}; !slices.Equal(src.withdrawn, want) {
				t.Errorf("withdrawn %q, want %q", src.withdrawn, want)
			}
			have := content(t, dir)
			if _, there := have[old]; there != tidiesItself {
				t.Errorf("%s is there: %v, want %v", old, there, tidiesItself)
			}
			if have[LatestName] == "" || have[new] == "" {
				t.Errorf("the drop has lost more than it should: %d files", len(have))
			}
		})
	}
}
