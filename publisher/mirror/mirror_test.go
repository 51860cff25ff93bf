package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/mirror"
	"gpuboard/snapshot"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A far is a data directory on a real server, and a copy of it here.
type far struct {
	t      *testing.T
	server *sshtest.Server
	data   string // on the server
	copied string
	now    time.Time
	m      *mirror.Mirror
	o      mirror.Options
}

// newFar has a server of which the account can only read.
func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{t: t, server: sshtest.Start(t, sshtest.Options{Command: "internal-sftp -R"}), copied: filepath.Join(t.TempDir(), "copy"), now: noon}
	f.data = filepath.Join(f.server.Dir, "data")
	f.must(os.MkdirAll(filepath.Join(f.data, "drop"), 0o755))
	f.o = mirror.Options{Dir: f.copied, Keep: true, Now: func() time.Time { return f.now }, Server: publisher.Options{
		Target:   publisher.Target{Scheme: "sftp", User: f.server.User, Host: f.server.Host, Port: f.server.Port, Dir: f.data},
		Identity: []string{f.server.Key}, KnownHosts: []string{f.server.KnownHosts}, ConfigFiles: []string{}, Budget: 10 * time.Second,
	}}
	f.begin()
	return f
}

// begin is a process that begins.
func (f *far) begin() {
	f.t.Helper()
	m, err := mirror.New(f.o)
	f.must(err)
	f.t.Cleanup(func() { m.Close() })
	f.m = m
}

func (f *far) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// put writes a file into a drop as a push does, at a moment of the server's clock.
func (f *far) put(rel, content string, at time.Time) {
	f.t.Helper()
	name := filepath.Join(f.data, "drop", rel)
	f.must(os.MkdirAll(filepath.Dir(name), 0o755))
	f.must(os.WriteFile(name+".new", []byte(content), 0o644))
	f.must(os.Chtimes(name+".new", at, at))
	f.must(os.Rename(name+".new", name))
	f.must(os.Chtimes(filepath.Dir(name), at, at))
}

// refresh wants so many files fetched and these codes of problems.
func (f *far) refresh(fetched int, codes ...string) mirror.Stats {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stats, problems, err := f.m.Refresh(ctx)
	f.must(err)
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimSpace(p.Code+" "+p.Host))
	}
	slices.Sort(got)
	if stats.Fetched != fetched || !slices.Equal(got, codes) {
		f.t.Errorf("fetched %d with problems %q, want %d with %q", stats.Fetched, got, fetched, codes)
	}
	return stats
}

// holds wants exactly these files in the copy, as "name=content".
func (f *far) holds(want ...string) {
	f.t.Helper()
	var got []string
	root := filepath.Join(f.copied, "drop")
	f.must(filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		got = append(got, rel+"="+string(content))
		return err
	}))
	if !slices.Equal(got, want) {
		f.t.Errorf("the copy holds %q, want %q", got, want)
	}
}

func TestOnlyWhatChangedIsFetched(t *testing.T) {
	f := newFar(t)
	old := noon.Add(-time.Hour)
	f.refresh(0)
	f.put("gpu01/latest.json.gz", "one", old)
	f.put("gpu02/in/latest.json.gz", "two", old)
	f.put("gpu02/in/hour-20261120T10-aaaaaaaa.jsonl.gz", "hour", old)
	f.put("gpu03/other.txt", "of nobody", noon)
	f.refresh(3)
	f.holds("gpu01/latest.json.gz=one", "gpu02/in/hour-20261120T10-aaaaaaaa.jsonl.gz=hour", "gpu02/in/latest.json.gz=two")
	if s := f.refresh(0); s.Dialed || s.Hosts != 3 {
		t.Errorf("%+v, want 3 hosts over the same connection", s)
	}
	f.put("gpu02/in/latest.json.gz", "three", noon.Add(-time.Minute))
	f.refresh(1)
	f.begin() // what the copy holds is known without a memory
	f.refresh(0)
	f.holds("gpu01/latest.json.gz=one", "gpu02/in/hour-20261120T10-aaaaaaaa.jsonl.gz=hour", "gpu02/in/latest.json.gz=three")

	// What is gone there goes here, when it is noticed: at once for a drop and for
	// its newest file, at the next listing for hours.
	f.must(os.RemoveAll(filepath.Join(f.data, "drop", "gpu01")))
	f.must(os.Remove(filepath.Join(f.data, "drop", "gpu02", "in", "latest.json.gz")))
	f.refresh(0)
	f.holds("gpu02/in/hour-20261120T10-aaaaaaaa.jsonl.gz=hour")
	f.must(os.RemoveAll(filepath.Join(f.data, "drop", "gpu02", "in")))
	f.now = f.now.Add(6 * time.Minute)
	f.refresh(0)
	f.holds()
}

func TestTwoPushesInOneSecondAreNotMissed(t *testing.T) {
	f := newFar(t)
	f.put("gpu01/latest.json.gz", "one", noon)
	f.refresh(1)
	f.put("gpu01/latest.json.gz", "two", noon) // of the same size and second
	f.refresh(1)
	f.holds("gpu01/latest.json.gz=two")
	f.now = f.now.Add(3 * time.Second)
	f.refresh(1) // once more, when the second is over there as well
	f.refresh(0)
}

func TestAHostileServerIsHeldOff(t *testing.T) {
	f := newFar(t)
	old := noon.Add(-time.Hour)
	secret := filepath.Join(f.server.Root, "secret")
	f.must(os.WriteFile(secret, []byte("secret"), 0o600))
	f.put("gpu01/latest.json.gz", "good", old)
	drop := filepath.Join(f.data, "drop")
	for _, host := range []string{"gpu02", "gpu03", "gpu04", "gpu05"} {
		f.must(os.MkdirAll(filepath.Join(drop, host), 0o755))
	}
	f.must(os.Symlink(secret, filepath.Join(drop, "gpu02", "latest.json.gz")))
	f.must(os.Symlink(drop, filepath.Join(drop, "gpu03", "in")))
	f.must(syscall.Mkfifo(filepath.Join(drop, "gpu04", "latest.json.gz"), 0o644))
	f.put("gpu05/latest.json.gz", strings.Repeat("x", snapshot.MaxFileBytes+1), old)
	f.put("gpu05/hour-20261120T10-aaaaaaaa.jsonl.gz", strings.Repeat("x", snapshot.MaxFileBytes+1), old)
	f.must(os.Symlink(filepath.Join(drop, "gpu01"), filepath.Join(drop, "gpu06")))
	f.must(os.Mkdir(filepath.Join(drop, "UP CASE"), 0o755))
	f.must(os.Mkdir(filepath.Join(drop, ".hidden"), 0o755))
	for i := range snapshot.MaxDropEntries + 50 {
		f.must(os.WriteFile(filepath.Join(drop, "gpu01", fmt.Sprintf("z%d", i)), nil, 0o644))
	}
	f.refresh(1, "bad:name", "bad:notregular", "bad:notregular gpu02", "bad:notregular gpu03", "bad:notregular gpu04", "bad:notregular gpu05", "bad:toomany gpu01")
	f.holds("gpu01/latest.json.gz=good")
	for _, name := range []string{"gpu06", "UP CASE", ".hidden"} {
		if _, err := os.Lstat(filepath.Join(f.copied, "drop", name)); !os.IsNotExist(err) {
			t.Errorf("there is a copy of %s (%v)", name, err)
		}
	}
}

func TestHoursAreBoundedInAll(t *testing.T) {
	f := newFar(t)
	old := noon.Add(-time.Hour)
	f.m.Allow(3 << 20)
	mib := strings.Repeat("x", 1<<20)
	for _, host := range []string{"gpu01", "gpu02"} {
		for _, hour := range []string{"08", "09", "10"} {
			f.put(host+"/hour-20261120T"+hour+"-aaaaaaaa.jsonl.gz", mib, old)
		}
	}
	f.refresh(3, snapshot.BadTooMany) // the newest, of all hosts
	for _, name := range []string{"gpu01/hour-20261120T10-aaaaaaaa.jsonl.gz", "gpu02/hour-20261120T10-aaaaaaaa.jsonl.gz"} {
		if _, err := os.Stat(filepath.Join(f.copied, "drop", name)); err != nil {
			t.Error(err)
		}
	}
	// What was fetched before counts, also where it is not listed again.
	f.now = f.now.Add(time.Minute)
	f.put("gpu03/hour-20261120T11-aaaaaaaa.jsonl.gz", mib, old)
	f.refresh(0, snapshot.BadTooMany)
	f.begin()
	f.m.Allow(5 << 20)
	f.refresh(2, snapshot.BadTooMany)
}

func TestAServerThatIsAwayLeavesTheCopy(t *testing.T) {
	f := newFar(t)
	f.put("gpu01/latest.json.gz", "one", noon.Add(-time.Hour))
	f.put("gpu02/other", "", noon) // tells the server's clock
	f.refresh(1)
	fails := func(code string, is error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _, err := f.m.Refresh(ctx)
		if err == nil || code != "" && publisher.Code(err) != code || is != nil && !errors.Is(err, is) {
			t.Errorf("%v (%s), want %s", err, publisher.Code(err), code)
		}
		f.holds("gpu01/latest.json.gz=one")
	}
	f.server.Stop()
	fails(publisher.CodeRefused, nil)
	f.server.Restart()
	if s := f.refresh(0); !s.Dialed {
		t.Errorf("%+v", s)
	}
	// A connection that broke while nobody used it costs no refresh.
	f.server.Stop()
	f.server.Restart()
	if s := f.refresh(0); !s.Dialed {
		t.Errorf("%+v", s)
	}
	f.must(os.Rename(filepath.Join(f.data, "drop"), filepath.Join(f.data, "away")))
	fails("", mirror.ErrNoDrops)
	f.must(os.Rename(filepath.Join(f.data, "away"), filepath.Join(f.data, "drop")))
	f.refresh(0)

	// One who stops answering in the middle.
	thaw := f.server.Freeze(f.server.SFTP()...)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := f.m.Refresh(ctx); publisher.Code(err) != publisher.CodeTimeout && publisher.Code(err) != publisher.CodeLost {
		t.Errorf("%v, want that the time was over", err)
	}
	thaw()

	// Another server in its place.
	sshtest.WriteKey(t, filepath.Join(f.server.Root, "other"), "ed25519", "")
	other, err := os.ReadFile(filepath.Join(f.server.Root, "other.pub"))
	f.must(err)
	f.must(os.WriteFile(f.server.KnownHosts, []byte(fmt.Sprintf("[%s]:%d %s", f.server.Host, f.server.Port, other)), 0o600))
	f.begin()
	fails(publisher.CodeHostChanged, nil)
}

func TestATalkativeServerIsCutOff(t *testing.T) {
	f := newFar(t)
	f.put("gpu01/latest.json.gz", strings.Repeat("x", 100_000), noon)
	ctx := context.Background()
	o := f.o.Server
	r, err := publisher.DialReader(ctx, o)
	f.must(err)
	defer r.Close()
	end := r.Begin(ctx, 50_000)
	defer end()
	if _, _, err := r.Read(ctx, filepath.Join(f.data, "drop", "gpu01", "latest.json.gz"), snapshot.MaxFileBytes); err == nil || !strings.Contains(err.Error(), "more than it was asked for") {
		t.Errorf("%v, want that it was too much", err)
	}
	if r.Usable() {
		t.Error("the connection is still there")
	}
}

func TestAnAddressMustBeOne(t *testing.T) {
	if _, err := mirror.New(mirror.Options{Server: publisher.Options{Target: publisher.Target{Scheme: "file", Dir: "/x"}}, Dir: t.TempDir()}); err == nil {
		t.Error("a local directory is copied")
	}
}
