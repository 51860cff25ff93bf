package sitegen_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
)

// fill puts files that no gpuboard sends into the drop of the first host.
func (l *lab) fill(n, size int) {
	l.t.Helper()
	for i := range n {
		name := fmt.Sprintf("data/drop/%s/x%d", l.hosts[0], i)
		l.write(name, "")
		if err := os.Truncate(l.path(name), int64(size)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *lab) dropSize() int {
	l.t.Helper()
	entries, err := os.ReadDir(l.path("data/drop/" + l.hosts[0]))
	if err != nil {
		l.t.Fatal(err)
	}
	return len(entries)
}

func dropProblems(r sitegen.Report) (found []snapshot.Problem) {
	for _, p := range r.Board.Problems {
		if strings.HasPrefix(p.Code, "drop:") {
			found = append(found, p)
		}
	}
	return found
}

// TestADropThatIsFilledIsSwept: what a node put there is removed and said, and
// the host is shown as before.
func TestADropThatIsFilledIsSwept(t *testing.T) {
	l := newLab(t)
	l.fill(400, 1000)
	r := l.generate(start)
	want := []snapshot.Problem{{Code: "drop:full", Host: l.hosts[0],
		Message: "drop/" + l.hosts[0] +
			" contains 401 files and 1 MiB; the limit is 320 files and 72 MiB; 399 files with 1 MiB were removed"}}
	if got := dropProblems(r); !slices.Equal(got, want) {
		t.Errorf("problems %+v\nwant %+v", got, want)
	}
	if n := l.dropSize(); n != 2 { // the newest may be an upload that goes on
		t.Errorf("the drop holds %d files", n)
	}
	if r := l.generate(start); len(dropProblems(r)) != 0 || hostOf(r.Board, l.hosts[0]).State != "up" {
		t.Errorf("the next time: %+v, the host is %s", dropProblems(r), hostOf(r.Board, l.hosts[0]).State)
	}
}

// TestALargeDropIsSweptInSteps: a generator that goes on does not wait with the rest.
func TestALargeDropIsSweptInSteps(t *testing.T) {
	l := newLab(t)
	l.fill(2448, 0)
	g, err := sitegen.New(l.options())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := g.Generate(t.Context(), start); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.dropSize(); n != 2 { // the newest may be an upload that goes on
		t.Errorf("the drop holds %d files", n)
	}
}

// TestADropThatCannotBeSwept: with the right to read alone, one problem says what
// is there and why it stays.
func TestADropThatCannotBeSwept(t *testing.T) {
	need.Root(t)
	for code, tt := range map[string]struct {
		files, size int
		want        string
	}{
		"drop:full": {400, 1000,
			"contains 401 files and 1 MiB; the limit is 320 files and 72 MiB; the generator cannot remove them: read-only " +
				"file system"},
		"drop:unswept": {17, snapshot.MaxFileBytes + 1,
			"contains 18 files and 18 MiB; 17 of the files do not belong there; the generator cannot remove them: read-only " +
				"file system"},
		"": {3, snapshot.MaxFileBytes + 1, ""},
	} {
		t.Run(code, func(t *testing.T) {
			l := newLab(t)
			drop := l.path("data/drop/" + l.hosts[0])
			if err := syscall.Mount("none", drop, "tmpfs", 0, "mode=755"); err != nil {
				need.Skip(t, "no file system can be mounted here: "+err.Error())
			}
			t.Cleanup(func() { _ = syscall.Unmount(drop, syscall.MNT_DETACH) })
			l.push(start, l.hosts[0])
			l.fill(tt.files, tt.size)
			if err := syscall.Mount("none", drop, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r := l.generate(start)
				got := dropProblems(r)
				if tt.want == "" {
					if len(got) != 0 {
						t.Errorf("problems %+v", got)
					}
					continue
				}
				if len(got) != 1 || got[0].Code != code || got[0].Host != l.hosts[0] ||
					!strings.HasSuffix(got[0].Message, tt.want) {
					t.Errorf("problems %+v", got)
				}
				if s := hostOf(r.Board, l.hosts[0]).State; s != "up" {
					t.Errorf("the host is %s", s)
				}
			}
		})
	}
}

// TestWhatIsNotSwept: files of the older scripts, and anything in a generation at
// another moment than now.
func TestWhatIsNotSwept(t *testing.T) {
	for name, change := range map[string]func(l *lab, o *sitegen.Options){
		"the older scripts' directory": func(l *lab,
			o *sitegen.Options) {
			o.Legacy = l.path("data/drop/" + l.hosts[0])
		},
		"a link to it": func(l *lab, o *sitegen.Options) {
			o.Legacy = l.path("older")
			if err := os.Symlink(l.path("data/drop/"+l.hosts[0]), o.Legacy); err != nil {
				l.t.Fatal(err)
			}
		},
		"another moment": func(_ *lab, o *sitegen.Options) { o.Pretend = true },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.fill(330, 10)
			l.generate(start, func(o *sitegen.Options) { change(l, o) })
			if n := l.dropSize(); n != 331 {
				t.Errorf("the drop holds %d files", n)
			}
		})
	}
}
