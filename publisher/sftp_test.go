package publisher_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"

	"github.com/google/go-cmp/cmp"
)

func TestConformance(t *testing.T) {
	drops := map[string]func(t *testing.T) (publisher.Options, string){
		"openssh": func(t *testing.T) (publisher.Options, string) {
			s := sshtest.Start(t, sshtest.Options{})
			return toServer(t, s, s.Port), s.Dir
		},
		"openssh absolute path": func(t *testing.T) (publisher.Options, string) {
			s := sshtest.Start(t, sshtest.Options{})
			o := toServer(t, s, s.Port)
			o.Target.Dir = filepath.Join(s.Root, "elsewhere")
			if err := os.Mkdir(o.Target.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return o, o.Target.Dir
		},
		"openssh write-only account": func(t *testing.T) (publisher.Options, string) {
			s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
			return toServer(t, s, s.Port), s.Dir
		},
		"openssh without fsync": func(t *testing.T) (publisher.Options, string) {
			s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P fsync"})
			return toServer(t, s, s.Port), s.Dir
		},
		"gpuboard receive": func(t *testing.T) (publisher.Options, string) {
			return receiver(t)
		},
		"local": func(t *testing.T) (publisher.Options, string) {
			return localOptions(t)
		},
	}
	for name, drop := range drops {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s keep=%v", name, keep), func(t *testing.T) {
				o, dir := drop(t)
				o.Keep = keep
				conform(t, o, dir)
			})
		}
	}
}

// conform is what holds for every kind of drop.
func conform(t *testing.T, o publisher.Options, dir string) {
	p := open(t, o)
	src := newMemorySpool(publisher.LatestName, "hour-20261120T04-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz")
	r := publish(t, p, src)
	want := []string{publisher.LatestName, "hour-20261120T05-b1.jsonl.gz", "hour-20261120T04-b1.jsonl.gz"}
	if diff := cmp.Diff(want, src.delivered); diff != "" {
		t.Errorf("order of delivery (-want +got):\n%s", diff)
	}
	if r.Waiting != 0 || len(r.Delivered) != 3 || r.Bytes == 0 {
		t.Errorf("report = %+v", r)
	}

	// Replace, with something of several packets, and with nothing at all.
	big := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for _, data := range [][]byte{big, {}, []byte("last")} {
		src.set(publisher.LatestName, data)
		publish(t, p, src)
		if got := content(t, dir)[publisher.LatestName]; got != string(data) {
			t.Fatalf("the drop holds %d bytes, want %d", len(got), len(data))
		}
	}

	// Nothing waits: nothing is done.
	if r := publish(t, p, src); r.Attempts != 0 {
		t.Errorf("with nothing to do: %+v", r)
	}

	// A file that cannot be read does not hold up the others.
	src = newMemorySpool(publisher.LatestName, "hour-20261120T07-b1.jsonl.gz")
	src.unreadable = map[string]error{publisher.LatestName: os.ErrPermission}
	if _, err := p.Publish(context.Background(), src); publisher.Code(err) != publisher.CodeSpool {
		t.Errorf("unreadable file: got %v", err)
	}
	// One that left the spool meanwhile is no error.
	src = newMemorySpool(publisher.LatestName, "hour-20261120T03-b1.jsonl.gz")
	src.unreadable = map[string]error{"hour-20261120T03-b1.jsonl.gz": os.ErrNotExist}
	if r := publish(t, p, src); r.Waiting != 0 || len(r.Delivered) != 1 || r.Delivered[0] != publisher.LatestName {
		t.Errorf("vanished file: %+v", r)
	}
	names := content(t, dir)
	for _, name := range []string{publisher.LatestName, "hour-20261120T04-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz",
		"hour-20261120T07-b1.jsonl.gz"} {
		if _, ok := names[name]; !ok {
			t.Errorf("%s is missing", name)
		}
		delete(names, name)
	}
	if len(names) != 0 {
		t.Errorf("the drop also holds %v", names)
	}
	if o.StateDir != "" {
		if left := content(t, o.StateDir); len(left) != 0 {
			t.Errorf("upload records left behind: %v", left)
		}
	}
}

func TestBacklogIsBoundedAndNewestFirst(t *testing.T) {
	o, dir := localOptions(t)
	o.Backlog = 3
	p := open(t, o)
	src := newMemorySpool(publisher.LatestName)
	for h := range 8 {
		src.set(fmt.Sprintf("hour-20261120T%02d-b1.jsonl.gz", h), []byte("x"))
	}
	r := publish(t, p, src)
	if r.Waiting != 5 || len(r.Delivered) != 4 || r.Delivered[0] != publisher.LatestName ||
		r.Delivered[1] != "hour-20261120T07-b1.jsonl.gz" {
		t.Errorf("report = %+v", r)
	}
	src.set(publisher.LatestName, []byte("newer"))
	if r = publish(t, p, src); r.Waiting != 2 || r.Delivered[0] != publisher.LatestName {
		t.Errorf("second report = %+v", r)
	}
	if got := content(t, dir)[publisher.LatestName]; got != "newer" {
		t.Errorf("latest = %q", got)
	}
	for h := range 5 { // without a latest file
		src.set(fmt.Sprintf("hour-20261121T%02d-b1.jsonl.gz", h), []byte("x"))
	}
	if r = publish(t, p, src); r.Waiting != 4 || len(r.Delivered) != 3 {
		t.Errorf("third report = %+v", r)
	}
}

// sealed is content that shows whether it is whole.
func sealed(n int) []byte {
	body := bytes.Repeat([]byte(fmt.Sprintf("generation %08d ", n)), 4096)
	return append(body, fmt.Sprintf("%x", sha256.Sum256(body))...)
}

func whole(data []byte) bool {
	const sum = 2 * sha256.Size
	if len(data) < sum {
		return false
	}
	body := data[:len(data)-sum]
	return fmt.Sprintf("%x", sha256.Sum256(body)) == string(data[len(data)-sum:])
}

func TestReadersNeverSeeATornFile(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	o := toServer(t, s, s.Port)
	o.Keep = true
	p := open(t, o)
	src := newMemorySpool()
	src.set(publisher.LatestName, sealed(0))
	publish(t, p, src)
	if whole(sealed(1)[:100]) {
		t.Fatal("the check for wholeness does not work")
	}

	// Each read looks at the first and the last of the generation's marks, and
	// every hundredth at all of it.
	size, mark := len(sealed(0)), len("generation 00000000 ")
	quick := func(data []byte) bool {
		return len(data) == size && bytes.Equal(data[:mark], data[size-2*sha256.Size-mark:size-2*sha256.Size])
	}
	enough, replaced := int64(3_000), 20
	if os.Getenv("GPUBOARD_LONG") == "1" {
		enough, replaced = 100_000, 60
	}
	var reads, torn, missing atomic.Int64
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				n := reads.Add(1)
				data, err := os.ReadFile(filepath.Join(s.Dir, publisher.LatestName))
				if err != nil {
					missing.Add(1)
				} else if !quick(data) || n%100 == 0 && !whole(data) {
					torn.Add(1)
				}
			}
		})
	}
	pushes := 0
	for reads.Load() < enough || pushes < replaced {
		pushes++
		src.set(publisher.LatestName, sealed(pushes))
		publish(t, p, src)
	}
	done.Store(true)
	readers.Wait()
	if torn.Load() != 0 || missing.Load() != 0 {
		t.Errorf("%d reads during %d replacements: %d torn, %d missing", reads.Load(), pushes, torn.Load(),
			missing.Load())
	}
}

func TestServerWithoutPosixRenameIsRefused(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P posix-rename"})
	if err := os.WriteFile(filepath.Join(s.Dir, publisher.LatestName), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := refused(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName), "ssh:no-posix-rename")
	if e.Temporary() || e.Hint() == "" {
		t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
	}
	if diff := cmp.Diff(map[string]string{publisher.LatestName: "before"}, content(t, s.Dir)); diff != "" {
		t.Errorf("the drop changed (-want +got):\n%s", diff)
	}
}

func TestRemoteRefusals(t *testing.T) {
	t.Run("no directory", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		o := toServer(t, s, s.Port)
		o.Target.Dir = filepath.Join(s.Dir, "absent")
		if e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), "remote:directory"); e.Temporary() ||
			!strings.Contains(e.Hint(), "absent") {
			t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
		}
	})
	t.Run("write denied", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P open"})
		if e := refused(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName),
			publisher.CodeRemoteDenied); e.Temporary() {
			t.Error("a denied request counts as temporary")
		}
	})
	t.Run("rename denied for this file", func(t *testing.T) {
		// A directory in the file's place: the rename fails, the temporary goes.
		s := sshtest.Start(t, sshtest.Options{})
		if err := os.Mkdir(filepath.Join(s.Dir, publisher.LatestName), 0o755); err != nil {
			t.Fatal(err)
		}
		refused(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName), publisher.CodeRemoteFailure)
		entries, err := os.ReadDir(s.Dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	})
	t.Run("no SFTP session", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Config: "MaxSessions 0\n"})
		refused(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName), publisher.CodeNoSFTP)
	})
}

func TestRoundTripsAndBytes(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	proxy := sshtest.NewProxy(t, s.Addr)
	o := toServer(t, s, proxy.Port)
	o.Keep = true
	p := open(t, o)
	src := newMemorySpool(publisher.LatestName)
	publish(t, p, src)
	proxy.Reset()
	src.set(publisher.LatestName, bytes.Repeat([]byte("x"), 3000))
	r := publish(t, p, src)
	up, down, turns := proxy.Counted()
	if r.Dialed != 0 {
		t.Errorf("report = %+v", r)
	}
	if turns > 6 || up > 4096 {
		t.Errorf("a push over a kept connection: %d round trips, %d bytes up, %d down; want at most 6 and 4096", turns,
			up, down)
	}
	t.Logf("kept: %d round trips, %d bytes up, %d down", turns, up, down)
}

func TestManyNodesAtOnce(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	manyAtOnce(t, s, 50)
}

func BenchmarkTwoHundredNodesAtOnce(b *testing.B) {
	s := sshtest.Start(b, sshtest.Options{})
	for b.Loop() {
		manyAtOnce(b, s, 200)
	}
}

// manyAtOnce lets nodes push at the same instant. With the stock MaxStartups the
// server turns a good part of them away at first.
func manyAtOnce(t testing.TB, s *sshtest.Server, nodes int) {
	t.Helper()
	var arrived, again atomic.Int64
	var all sync.WaitGroup
	for n := range nodes {
		o := toServer(t, s, s.Port)
		o.Target.Dir = filepath.Join(s.Dir, fmt.Sprintf("n%03d", n))
		if err := os.MkdirAll(o.Target.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p := open(t, o)
		all.Go(func() {
			r, err := p.Publish(context.Background(), newMemorySpool(publisher.LatestName))
			if err != nil {
				t.Errorf("node %d: %v", n, err)
				return
			}
			arrived.Add(1)
			again.Add(int64(r.Attempts - 1))
		})
	}
	all.Wait()
	t.Logf("%d of %d arrived with %d further attempts", arrived.Load(), nodes, again.Load())
}

func BenchmarkPush(b *testing.B) {
	for _, keep := range []bool{false, true} {
		b.Run(map[bool]string{false: "fresh", true: "kept"}[keep], func(b *testing.B) {
			s := sshtest.Start(b, sshtest.Options{Command: sshtest.LockedDown})
			o := toServer(b, s, s.Port)
			o.Keep = keep
			p := open(b, o)
			src := newMemorySpool()
			data := bytes.Repeat([]byte("x"), 3000)
			for b.Loop() {
				src.set(publisher.LatestName, data)
				if _, err := p.Publish(context.Background(), src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
