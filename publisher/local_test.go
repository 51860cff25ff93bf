package publisher

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func localOptions(t testing.TB) (Options, string) {
	data := t.TempDir()
	return Options{Target: Target{Scheme: "file", Dir: data}, Host: "gpu01"}, filepath.Join(data, "drop", "gpu01")
}

func TestLocalRefusals(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, o *Options){
		"missing data directory": func(t *testing.T,
			o *Options) {
			o.Target.Dir = filepath.Join(o.Target.Dir, "absent")
		},
		"data directory is a file": func(t *testing.T, o *Options) {
			o.Target.Dir = filepath.Join(o.Target.Dir, "file")
			if err := os.WriteFile(o.Target.Dir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"drop directory is a file": func(t *testing.T, o *Options) {
			if err := os.WriteFile(filepath.Join(o.Target.Dir, "drop"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"host directory is a link": func(t *testing.T, o *Options) {
			drop := filepath.Join(o.Target.Dir, "drop")
			if err := os.Mkdir(drop, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(t.TempDir(), filepath.Join(drop, o.Host)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := localOptions(t)
			spoil(t, &o)
			if e := refused(t, open(t, o), newMemorySpool(LatestName), CodeLocalDir); e.Temporary() {
				t.Error("counts as temporary")
			} else if errors.Is(e, os.ErrNotExist) != (name == "missing data directory") {
				t.Errorf("message %q", e)
			}
		})
	}
	for _, host := range []string{"", "..", "a/b", "../x", ".x", "GPU01", "a..b", "-x"} {
		o, _ := localOptions(t)
		o.Host = host
		if _, err := New(o); Code(err) != CodeTarget {
			t.Errorf("host %q: got %v", host, err)
		}
	}
}

// The temporary files of a publisher that was killed leave a local drop after a while; one that writes just now keeps its own.
func TestTemporaryFilesLeaveALocalDrop(t *testing.T) {
	o, drop := localOptions(t)
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": time.Hour, "new": 5 * time.Minute} {
		file := writeFile(t, filepath.Join(drop, ".tmp-"+name+"-"+rand.Text()), "half")
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, open(t, o), newMemorySpool(LatestName))
	left := slices.Sorted(maps.Keys(content(t, drop)))
	if len(left) != 2 || !strings.HasPrefix(left[0], ".tmp-new-") || left[1] != LatestName {
		t.Errorf("the drop holds %q", left)
	}
}

func TestClosedPublisher(t *testing.T) {
	o, _ := localOptions(t)
	p := open(t, o)
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	refused(t, p, newMemorySpool(LatestName), CodeCancelled)
}

func TestNewRefuses(t *testing.T) {
	for _, target := range []Target{{}, {Scheme: "ftp", Host: "web"}, {Scheme: "sftp"}} {
		if _, err := New(Options{Target: target}); Code(err) != CodeTarget {
			t.Errorf("%+v: %v", target, err)
		}
	}
	o, _ := localOptions(t)
	for _, o := range []Options{o, {}} {
		if err := CheckAccess(t.Context(), o, func() { t.Error("connected") }); Code(err) != CodeTarget {
			t.Errorf("checking access of %+v: %v", o.Target, err)
		}
	}
	p := open(t, o)
	if p.opts.Budget != DefaultBudget || p.opts.Backlog != DefaultBacklog || p.opts.retryCap != retryCap ||
		p.opts.Log == nil {
		t.Errorf("defaults are %+v", p.opts)
	}
	o.Budget, o.Backlog, o.retryCap = 1, 1, 1
	if p := open(t, o); p.opts.Budget != 1 || p.opts.Backlog != 1 || p.opts.retryCap != 1 {
		t.Errorf("options are %+v", p.opts)
	}
}

// A full or failing disk may recover, and a directory that is wrong does not.
func TestErrorsOfALocalDrop(t *testing.T) {
	for err, want := range map[syscall.Errno]string{syscall.ENOSPC: CodeLocal, syscall.EROFS: CodeLocal,
		syscall.EACCES: CodeLocalDir, syscall.ENOTDIR: CodeLocalDir} {
		if e := dropError("hint", &os.PathError{Op: "mkdir", Path: "/drop", Err: err}); e.Code != want ||
			e.Temporary() != (want == CodeLocal) || e.Hint() != "hint" {
			t.Errorf("%v: %s, temporary %v, hint %q; want %s", err, e.Code, e.Temporary(), e.Hint(), want)
		}
	}
}

// An expired file that cannot be removed does not keep the others in the drop.
func TestExpiredFileThatCannotBeRemoved(t *testing.T) {
	o, drop := localOptions(t)
	var said strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	if err := os.MkdirAll(filepath.Join(drop, "full", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(drop, "old"), "old")
	src := newMemorySpool(LatestName)
	src.expired = []string{"full", "gone", "old"}
	publish(t, open(t, o), src)
	if _, err := os.Lstat(filepath.Join(drop, "old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other file: %v", err)
	}
	if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "full") {
		t.Errorf("the log says %q", said.String())
	}
}
