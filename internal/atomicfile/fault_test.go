package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/testenv/need"
)

// TestMain lets the test binary stand in for a program that writes, so that
// faults can be injected into its system calls.
func TestMain(m *testing.M) {
	dir := os.Getenv("ATOMICFILE_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // strace counts the calls of each thread
	var err error
	switch os.Getenv("ATOMICFILE_DO") {
	case "write":
		_, err = Write(filepath.Join(dir, "page"), []byte("new"), 0o644)
	case "unsynced":
		_, err = WriteUnsynced(filepath.Join(dir, "page"), []byte("new"), 0o644)
	case "batch":
		var b *Batch
		if b, err = NewBatch(dir); err == nil {
			err = errors.Join(b.Add("page", []byte("new"), 0o644), b.Add("sub/below/other", []byte("new"), 0o644),
				b.Commit())
		}
	case "sweep":
		_, err = Sweep(dir, 0, time.Now().Add(time.Hour))
	case "lock":
		_, err = Lock(filepath.Join(dir, "a.lock"), 0o600)
	case "many":
		var b *Batch
		if b, err = NewBatch(dir); err == nil {
			for i := range manyDirs {
				err = errors.Join(err, b.Add(fmt.Sprintf("%02d/page", i), []byte("new"), 0o644))
			}
			err = errors.Join(err, b.Commit())
		}
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// straced runs the writer under strace and returns what it traced and said.
func straced(t *testing.T, do, dir string, options ...string) (trace []string, stderr string, err error) {
	t.Helper()
	strace := need.Program(t, "strace")
	out := filepath.Join(t.TempDir(), "trace")
	args := append([]string{"-f", "-y", "-o", out}, options...)
	cmd := exec.Command(strace, append(args, os.Args[0])...)
	cmd.Env = append(os.Environ(), "ATOMICFILE_DIR="+dir, "ATOMICFILE_DO="+do)
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	data, readErr := os.ReadFile(out)
	if readErr != nil {
		need.Skip(t, "strace cannot trace here: "+said.String())
	}
	return joined(strings.Split(string(data), "\n")), said.String(), err
}

// joined puts the two halves of each call together that another thread interrupted,
// where the second half stands.
func joined(lines []string) (out []string) {
	begun := map[string]string{} // by thread
	for _, line := range lines {
		thread, _, _ := strings.Cut(line, " ")
		if first, cut := strings.CutSuffix(line, " <unfinished ...>"); cut {
			begun[thread] = first
			continue
		}
		if _, rest, resumed := strings.Cut(line, " resumed>"); resumed {
			line = begun[thread] + rest
		}
		out = append(out, line)
	}
	return out
}

// inOrder finds the first line that matches each pattern after the line before.
func inOrder(t *testing.T, lines []string, patterns ...string) {
	t.Helper()
	at := 0
	for _, p := range patterns {
		re := regexp.MustCompile(p)
		for at < len(lines) && !re.MatchString(lines[at]) {
			at++
		}
		if at == len(lines) {
			t.Fatalf("%s does not come after the others in\n%s", p, strings.Join(lines, "\n"))
		}
		at++
	}
}

func oldPage(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := Write(filepath.Join(dir, "page"), []byte("old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const calls = "trace=openat,write,fchmod,fsync,fdatasync,syncfs,close,rename,renameat,renameat2"

func TestOrderOfSystemCalls(t *testing.T) {
	dir := oldPage(t)
	trace, said, err := straced(t, "write", dir, "-e", calls)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	temp := `\.tmp-page-[A-Z2-7]{26}`
	inOrder(t, trace, `openat\(.*`+temp+`", .*O_EXCL`, `write\(.*`+temp+`>, "new"`, `fchmod\(.*`+temp+`>, 0644`,
		`fsync\(.*`+temp+`>\) += 0`,
		`close\(.*`+temp, `renameat.*`+temp+`".* "page"\) = 0`, `fsync\(\d+<`+regexp.QuoteMeta(dir)+`>\) += 0`)

	dir = oldPage(t)
	trace, said, err = straced(t, "batch", dir, "-e", calls)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	inOrder(t, trace, `write\(.*`+temp, `write\(.*\.tmp-other-`, `syncfs\(.*\) += 0`, `renameat.*"page"\) = 0`,
		`renameat.*"other"\) = 0`,
		`fsync\(\d+<`+regexp.QuoteMeta(dir)+`>\) += 0`, `fsync\(\d+<`+regexp.QuoteMeta(dir)+`/sub>\) += 0`,
		`fsync\(\d+<`+regexp.QuoteMeta(dir)+`/sub/below>\) += 0`)
}

// TestNumberOfSystemCalls: a batch syncs the file system once and then each directory,
// or the file system twice; a file that has the content already is not touched.
func TestNumberOfSystemCalls(t *testing.T) {
	dir := oldPage(t)
	for _, test := range []struct {
		do                      string
		fsync, syncfs, renameat int
	}{
		{"write", 2, 0, 1},
		{"write", 0, 0, 0},
		{"batch", 3, 1, 1},
		{"many", 0, 2, manyDirs},
		{"unsynced", 0, 0, 0},
	} {
		trace, said, err := straced(t, test.do, dir, "-e", "trace=fchmod,fsync,syncfs,rename,renameat,renameat2")
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		count := map[string]int{}
		for _, line := range trace {
			if call := regexp.MustCompile(`^\d+ +([a-z]+)`).FindStringSubmatch(line); call != nil {
				count[call[1]]++
			}
		}
		if count["fsync"] != test.fsync || count["syncfs"] != test.syncfs || count["renameat"] != test.renameat ||
			test.renameat == 0 && count["fchmod"] != 0 {
			t.Errorf("%s: %v, want %+v", test.do, count, test)
		}
	}
	dir = oldPage(t)
	if trace, said, err := straced(t, "unsynced", dir, "-e", "trace=fsync"); err != nil ||
		strings.Contains(strings.Join(trace, "\n"), "fsync(") {
		t.Errorf("unsynced: %v, %s, %q", err, said, trace)
	}
}

// A write that fails at any step leaves the old file and no temporary one.
func TestFaults(t *testing.T) {
	for _, test := range []struct{ do, inject, want string }{
		{"write", "write:error=ENOSPC", "no space left"},
		{"write", "fchmod:error=EPERM", "not permitted"},
		{"write", "fsync:error=EIO", "input/output error"},
		{"write", "renameat,renameat2:error=EXDEV", "cross-device"},
		{"batch", "write:error=ENOSPC", "no space left"},
		{"batch", "syncfs:error=EIO", "input/output error"},
		{"batch", "renameat,renameat2:error=EXDEV", "cross-device"},
	} {
		call, _, _ := strings.Cut(test.inject, ":")
		dir := oldPage(t)
		// The first write of a Go program may be one of its runtime's; only those
		// to our files are of interest, and those are the first of their kind here.
		inject := test.inject
		if call != "write" {
			inject += ":when=1"
		}
		_, said, err := straced(t, test.do, dir, "-e", "trace="+call, "-e", "inject="+inject)
		if err == nil || call != "write" && !strings.Contains(said, test.want) {
			t.Errorf("%s with %s: %v, said %q", test.do, test.inject, err, said)
		}
		if got := content(t, filepath.Join(dir, "page")); got != "old one" || temps(t, dir) != 0 {
			t.Errorf("%s with %s: page is %q, %d temporary files", test.do, test.inject, got, temps(t, dir))
		}
	}
}

// Where the system cannot sync all at once, each file is synced before any rename.
func TestBatchWithoutSyncfs(t *testing.T) {
	dir := oldPage(t)
	trace, said, err := straced(t, "batch", dir, "-e", calls, "-e", "inject=syncfs:error=ENOSYS")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	inOrder(t, trace, `syncfs\(.*ENOSYS`, `fsync\(.*\.tmp-page-.*= 0`, `fsync\(.*\.tmp-other-.*= 0`,
		`renameat.*"page"\) = 0`, `renameat.*"other"\) = 0`)
	if got := content(t, filepath.Join(dir, "page")); got != "new" {
		t.Errorf("page is %q", got)
	}
	trace, said, err = straced(t, "many", dir, "-e", calls, "-e", "inject=syncfs:error=ENOSYS")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	inOrder(t, trace, `renameat.*/15>.*"page"\) = 0`, `fsync\(\d+<`+regexp.QuoteMeta(dir)+`/00>\) += 0`,
		`fsync\(\d+<`+regexp.QuoteMeta(dir)+`/15>\) += 0`)
}

// Without syncfs, a file that cannot be synced ends the batch before any rename.
func TestFaultWithoutSyncfs(t *testing.T) {
	dir := oldPage(t)
	_, said, err := straced(t, "batch", dir, "-e", calls, "-e", "inject=syncfs:error=ENOSYS", "-e",
		"inject=fsync:error=EIO")
	if err == nil || !strings.Contains(said, "input/output error") ||
		content(t, filepath.Join(dir, "page")) != "old one" || temps(t, dir) != 0 {
		t.Errorf("%v, %s; page is %q, %d temporary files", err, said, content(t, filepath.Join(dir, "page")),
			temps(t, dir))
	}
}

// A directory that its file system cannot sync is no error; one that is damaged is.
func TestFaultsOfTheDirectory(t *testing.T) {
	for name, fails := range map[string]bool{"EINVAL": false, "EOPNOTSUPP": false, "EIO": true} {
		dir := oldPage(t)
		_, said, err := straced(t, "write", dir, "-P", dir, "-e", "trace=fsync", "-e", "inject=fsync:error="+name)
		if (err != nil) != fails || content(t, filepath.Join(dir, "page")) != "new" {
			t.Errorf("%s: %v, %s; page is %q", name, err, said, content(t, filepath.Join(dir, "page")))
		}
	}
}

// Sweep returns what it could not read or remove, and removes the rest.
func TestFaultsOfASweep(t *testing.T) {
	for _, inject := range []string{"getdents64:error=EIO", "newfstatat:error=EIO", "unlinkat:error=EIO:when=1"} {
		call, _, _ := strings.Cut(inject, ":")
		dir := oldPage(t)
		below := filepath.Join(dir, ".below") // which is read before the temporary file beside it
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, in := range []string{dir, below} {
			if err := os.WriteFile(filepath.Join(in, tempPrefix+"page-"+rand.Text()), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, said, err := straced(t, "sweep", dir, "-P", below, "-e", "trace="+call, "-e", "inject="+inject)
		if err == nil || !strings.Contains(said, "sweeping "+dir) || !strings.Contains(said, "input/output error") {
			t.Errorf("%s: %v, said %q", inject, err, said)
		}
		if n := temps(t, dir); n != 1 {
			t.Errorf("%s: %d temporary files are left, want the one below", inject, n)
		}
	}
}

// Killed at any system call, the file is the old or the new one, whole.
func TestKilledAnywhere(t *testing.T) {
	for _, do := range []string{"write", "batch"} {
		for _, call := range []string{"write", "fchmod", "fsync", "syncfs", "renameat", "renameat2"} {
			for _, when := range []string{"1", "2"} {
				dir := oldPage(t)
				straced(t, do, dir, "-e", "trace="+call, "-e", "inject="+call+":signal=KILL:when="+when)
				if got := content(t, filepath.Join(dir, "page")); got != "old one" && got != "new" {
					t.Errorf("%s killed at %s %s: page is %q", do, call, when, got)
				}
				if n, err := Sweep(dir, time.Hour, time.Now().Add(2*time.Hour)); err != nil || temps(t, dir) != 0 {
					t.Errorf("%s killed at %s %s: swept %d, %v, and %d are left", do, call, when, n, err, temps(t, dir))
				}
			}
		}
	}
}

func TestFullDisk(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		need.Skip(t, "mounting a small file system: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "page")
	if _, err := Write(path, []byte("old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 4<<20)
	if changed, err := Write(path, big, 0o644); changed || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full disk: changed %v, %v", changed, err)
	}
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add("small", []byte("fits"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Add("page", big, 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full disk in a batch: %v", err)
	}
	if err := b.Commit(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("committing after that: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "small")); err == nil {
		t.Error("half of a batch that failed became visible")
	}
	if got := content(t, path); got != "old one" || temps(t, dir) != 0 {
		t.Errorf("page is %q, %d temporary files", got, temps(t, dir))
	}
	if changed, err := Write(path, []byte("new"), 0o644); !changed || err != nil {
		t.Errorf("with space again: changed %v, %v", changed, err)
	}
}
