package publisher_test

import (
	"crypto/rand"
	"errors"
	"fmt"
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

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
	"gpuboard/publisher"
)

func localOptions(t testing.TB) (publisher.Options, string) {
	data := t.TempDir()
	o := publisher.Options{Target: publisher.Target{Scheme: "file", Dir: data}, Host: "gpu01"}
	return o, filepath.Join(data, "drop", o.Host)
}

func TestLocalRefusals(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, o *publisher.Options){
		"missing data directory": func(t *testing.T,
			o *publisher.Options) {
			o.Target.Dir = filepath.Join(o.Target.Dir, "absent")
		},
		"data directory is a file": func(t *testing.T, o *publisher.Options) {
			o.Target.Dir = filepath.Join(o.Target.Dir, "file")
			if err := os.WriteFile(o.Target.Dir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"drop directory is a file": func(t *testing.T, o *publisher.Options) {
			if err := os.WriteFile(filepath.Join(o.Target.Dir, "drop"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"host directory is a link": func(t *testing.T, o *publisher.Options) {
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
			if e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeLocalDir); e.Temporary() {
				t.Error("counts as temporary")
			} else if errors.Is(e, os.ErrNotExist) != (name == "missing data directory") {
				t.Errorf("message %q", e)
			}
		})
	}
	for _, host := range []string{"", "..", "a/b", "../x", ".x", "GPU01", "a..b", "-x"} {
		o, _ := localOptions(t)
		o.Host = host
		if _, err := publisher.New(o); publisher.Code(err) != publisher.CodeTarget {
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
	publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	left := slices.Sorted(maps.Keys(content(t, drop)))
	if len(left) != 2 || !strings.HasPrefix(left[0], ".tmp-new-") || left[1] != publisher.LatestName {
		t.Errorf("the drop holds %q", left)
	}
}

func TestClosedPublisher(t *testing.T) {
	o, _ := localOptions(t)
	p := open(t, o)
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	refused(t, p, newMemorySpool(publisher.LatestName), sshclient.CodeCancelled)
}

func TestOnePushIsBounded(t *testing.T) {
	o, _ := localOptions(t)
	src := newMemorySpool(publisher.LatestName)
	for h := range publisher.DefaultBacklog + 1 {
		src.set(fmt.Sprintf("hour-20261120T%02d-b1.jsonl.gz", h), []byte("x"))
	}
	if r := publish(t, open(t, o), src); r.Waiting != 1 {
		t.Errorf("without a bound, %d of %d files are sent", len(r.Delivered), publisher.DefaultBacklog+2)
	}
	o.Budget = time.Nanosecond
	refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)
}

// A full or read-only disk may recover, so the next push is tried as usual.
func TestErrorsOfALocalDrop(t *testing.T) {
	need.Root(t)
	for options, says := range map[string]string{"nr_inodes=2": "no space left", "ro": "read-only"} {
		o, _ := localOptions(t)
		if err := syscall.Mount("tmpfs", o.Target.Dir, "tmpfs", 0, "size=64k"); err != nil {
			need.Skip(t, fmt.Sprintf("mounting a small file system: %v", err))
		}
		t.Cleanup(func() { syscall.Unmount(o.Target.Dir, syscall.MNT_DETACH) })
		var flags uintptr
		if options == "ro" {
			options, flags = "", syscall.MS_RDONLY
		}
		if err := syscall.Mount("", o.Target.Dir, "", syscall.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
		e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeLocal)
		if !e.Temporary() || e.Hint() == "" || !strings.Contains(e.Error(), says) {
			t.Errorf("%v, temporary %v, hint %q; want %q", e, e.Temporary(), e.Hint(), says)
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
	src := newMemorySpool(publisher.LatestName)
	src.expired = []string{"full", "gone", "old"}
	publish(t, open(t, o), src)
	if _, err := os.Lstat(filepath.Join(drop, "old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other file: %v", err)
	}
	if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "full") {
		t.Errorf("the log says %q", said.String())
	}
}
