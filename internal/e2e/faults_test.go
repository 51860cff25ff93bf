package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// webhost is a web host in a directory, with the real program to run on it.
type webhost struct {
	t       *testing.T
	dir     string
	program string
	fleet   *demo.Fleet
	now     time.Time
}

func newWebhost(t *testing.T, dir string) *webhost {
	t.Helper()
	w := &webhost{t: t, dir: dir, program: builtProgram(t), now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	w.fleet = demo.New(1, w.now)
	w.write("data/comments.json", []byte("{}"))
	return w
}

func (w *webhost) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *webhost) write(name string, data []byte) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), data, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// push puts what hosts know now into their drops.
func (w *webhost) push(hosts ...string) {
	w.t.Helper()
	for _, host := range hosts {
		s := w.fleet.Snapshot(host, w.now)
		raw, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.write("data/drop/"+host+"/latest.json.gz", raw)
	}
}

// args are those of one generation as of w.now, present those of one as of the
// clock's now, which remembers and announces what happened.
func (w *webhost) args(more ...string) []string {
	return append(w.present("--now", w.now.Format(time.RFC3339)), more...)
}

func (w *webhost) present(more ...string) []string {
	return append(
		[]string{"generate", "--data", w.path("data"), "--site", w.path("site"), "--state", w.path("state"),
			"--timezone", "UTC"}, more...)
}

// generate runs one generation and returns its exit code and what it said.
func (w *webhost) generate(more ...string) (int, string) {
	w.t.Helper()
	return w.do(w.args(more...)...)
}

// do runs the program.
func (w *webhost) do(args ...string) (int, string) {
	w.t.Helper()
	c := exec.Command(w.program, args...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// oracle is what holds of a site at any moment, whatever happened to its
// generator: each file is whole, each compressed twin unpacks, and what the
// pages need is there. It returns the names of all files.
func (w *webhost) oracle(when string) map[string][]byte {
	w.t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(w.path("site"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || atomicfile.IsTemp(d.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(w.path("site"), path)
		files[filepath.ToSlash(rel)] = data
		return err
	})
	if err != nil {
		w.t.Fatalf("%s: %v", when, err)
	}
	for name, data := range files {
		switch {
		case strings.HasSuffix(name, ".json") && !json.Valid(data):
			w.t.Errorf("%s: %s is no JSON document: %d bytes", when, name, len(data))
		case strings.HasSuffix(name, ".html") && !bytes.HasSuffix(bytes.TrimSpace(data), []byte("</html>")):
			w.t.Errorf("%s: %s does not end as a page does: %d bytes", when, name, len(data))
		case strings.HasSuffix(name, ".gz"):
			r, err := gzip.NewReader(bytes.NewReader(data))
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if err != nil {
				w.t.Errorf("%s: %s: %v", when, name, err)
			}
		case name == "index.html":
			for _, kind := range []string{"css", "js"} {
				_, after, found := bytes.Cut(data, []byte(`"assets/board.`))
				if !found {
					w.t.Errorf("%s: the index names no %s", when, kind)
					break
				}
				asset, _, _ := bytes.Cut(after, []byte(`"`))
				if files["assets/board."+string(asset)] == nil {
					w.t.Errorf("%s: the index wants assets/board.%s, which is not there", when, asset)
				}
			}
		}
	}
	return files
}

// TestGenerateOnAFullDisk: the old generation stays as it was, the exit code
// says to try again, and trying again works once there is room.
func TestGenerateOnAFullDisk(t *testing.T) {
	t.Parallel()
	need.Root(t)
	mount := need.Program(t, "mount")
	dir := t.TempDir()
	if out, err := exec.Command(mount, "-t", "tmpfs", "-o", "size=24m", "none", dir).CombinedOutput(); err != nil {
		need.Skip(t, fmt.Sprintf("mounting a small disk: %v: %s", err, out))
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	w := newWebhost(t, dir)
	w.push("atlas", "boreas")
	if code, out := w.generate(); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	before := w.oracle("before")
	w.now = w.now.Add(20 * time.Second)
	w.push("atlas", "boreas")

	// Fill the disk to the last block.
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 1<<16); len(chunk) > 0; {
		if _, err := ballast.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	ballast.Close()
	code, out := w.generate()
	if code != 75 || !strings.Contains(out, "no space left") {
		t.Errorf("on a full disk: exit %d: %s", code, out)
	}
	after := w.oracle("full")
	for name, data := range before {
		if !bytes.Equal(after[name], data) {
			t.Errorf("%s changed though the generation failed", name)
		}
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if code, out := w.generate(); code != 0 {
		t.Errorf("with room again: exit %d: %s", code, out)
	}
	if bytes.Equal(w.oracle("room again")["index.html"], before["index.html"]) {
		t.Error("with room again there is no new generation")
	}
}

// TestFiftyGenerators: one works, the others leave at once with "try again",
// and the site is whole.
func TestFiftyGenerators(t *testing.T) {
	t.Parallel()
	w := newWebhost(t, t.TempDir())
	w.push("atlas", "boreas")
	var mu sync.Mutex
	var all sync.WaitGroup
	codes := map[int]int{}
	for range 50 {
		all.Go(func() {
			c := exec.Command(w.program, w.args()...)
			_ = c.Run()
			mu.Lock()
			defer mu.Unlock()
			codes[c.ProcessState.ExitCode()]++
		})
	}
	all.Wait()
	if codes[0] == 0 || codes[0]+codes[75] != 50 {
		t.Errorf("exit codes %v, want some 0 and all others 75", codes)
	}
	if len(w.oracle("after fifty")) < 20 {
		t.Error("there is hardly a site")
	}
}

// TestHostileDropsHarmNobodyElse: whatever a node's account can leave in its
// own drop, the other hosts' files come out byte for byte as without it.
func TestHostileDropsHarmNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWebhost(t, t.TempDir())
	w.push("atlas", "boreas")
	if code, out := w.generate("--hosts", "atlas,boreas,evil"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	before := w.oracle("before")
	secret := w.path("secret.txt")
	w.write("secret.txt", []byte("not-for-the-page"))
	latest := w.path("data/drop/evil/latest.json.gz")
	if err := os.MkdirAll(filepath.Dir(latest), 0o755); err != nil {
		t.Fatal(err)
	}
	bomb := func() []byte {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		block := make([]byte, 1<<20)
		for range 256 {
			_, _ = z.Write(block)
		}
		_ = z.Close()
		return b.Bytes()
	}
	good, err := os.ReadFile(w.path("data/drop/atlas/latest.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func() error{
		"symlink":   func() error { return os.Symlink(secret, latest) },
		"dangling":  func() error { return os.Symlink("/nowhere", latest) },
		"hard link": func() error { return os.Link(secret, latest) },
		"fifo":      func() error { return syscall.Mkfifo(latest, 0o644) },
		"directory": func() error { return os.Mkdir(latest, 0o755) },
		"sparse": func() error {
			return errors.Join(os.WriteFile(latest, nil, 0o644),
				os.Truncate(latest, 1<<40))
		},
		"bomb":        func() error { return os.WriteFile(latest, bomb(), 0o644) },
		"empty":       func() error { return os.WriteFile(latest, nil, 0o644) },
		"other host":  func() error { return os.WriteFile(latest, good, 0o644) },
		"cut":         func() error { return os.WriteFile(latest, good[:len(good)/2], 0o644) },
		"two in one":  func() error { return os.WriteFile(latest, append(bytes.Clone(good), good...), 0o644) },
		"plain text":  func() error { return os.WriteFile(latest, []byte("<script>alert(1)</script>"), 0o644) },
		"many others": func() error { return crowd(filepath.Dir(latest), 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(latest); err != nil {
				t.Fatal(err)
			}
			if err := plant(); err != nil {
				t.Fatal(err)
			}
			done := make(chan int, 1)
			go func() { code, _ := w.generate("--hosts", "atlas,boreas,evil"); done <- code }()
			select {
			case code := <-done:
				if want := map[bool]int{true: 0, false: 3}[name == "many others"]; code != want && code != 3 {
					t.Errorf("exit %d, want %d", code, want)
				}
			case <-time.After(need.Patience):
				t.Fatal("the generation hangs")
			}
			for file, data := range w.oracle(name) {
				if bytes.Contains(data, []byte("not-for-the-page")) {
					t.Errorf("%s shows a file that the drop pointed at", file)
				}
				if (strings.Contains(file, "atlas") || strings.Contains(file, "boreas")) &&
					!bytes.Equal(data, before[file]) {
					t.Errorf("%s is another than without the hostile drop", file)
				}
			}
		})
	}
}

// crowd fills a directory with files that nobody asked for.
func crowd(dir string, n int) error {
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("x%d\x1b[2J.json", i)), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}
