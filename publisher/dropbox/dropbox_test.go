package dropbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
)

func TestPutAndReplace(t *testing.T) {
	b := start(t, Limits{}, "gpu01", "gpu02")
	c := b.open(t, "gpu01")
	for _, data := range []string{"one", strings.Repeat("two", 100_000), ""} {
		if err := put(c, ".tmp-1", spool.LatestName, []byte(data)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(b.drop("gpu01"), spool.LatestName))
		if err != nil || string(got) != data {
			t.Fatalf("the drop holds %d bytes (%v), want %d", len(got), err, len(data))
		}
	}
	if err := put(c, "/.tmp-2", "/hour-20261120T05-b1.2.jsonl.gz", []byte("hour")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"hour-20261120T05-b1.2.jsonl.gz", spool.LatestName},
		names(t, b.drop("gpu01"))); diff != "" {
		t.Errorf("the drop (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(b.data, "host_key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("host key: %v, %v", info.Mode(), err)
	}
}

func TestANodeCanDoNothingElse(t *testing.T) {
	b := start(t, Limits{}, "gpu01", "gpu02")
	if err := put(b.open(t, "gpu02"), ".tmp-1", spool.LatestName, []byte("of gpu02")); err != nil {
		t.Fatal(err)
	}
	client, err := b.login(t, "gpu01")
	if err != nil {
		t.Fatal(err)
	}
	c, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(c, ".tmp-1", spool.LatestName, []byte("of gpu01")); err != nil {
		t.Fatal(err)
	}
	openWith := func(name string, flags int) error {
		f, err := c.OpenFile(name, flags)
		if err == nil {
			f.Close()
		}
		return err
	}
	const create = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	for what, try := range map[string]func() error{
		"read own file":         func() error { return openWith(spool.LatestName, os.O_RDONLY) },
		"read a sibling's":      func() error { return openWith("../gpu02/"+spool.LatestName, os.O_RDONLY) },
		"open the final name":   func() error { return openWith(spool.LatestName, create) },
		"truncate the final":    func() error { return openWith(spool.LatestName, os.O_WRONLY|os.O_TRUNC) },
		"create without excl":   func() error { return openWith(".tmp-9", os.O_WRONLY|os.O_CREATE) },
		"append":                func() error { return openWith(".tmp-9", create|os.O_APPEND) },
		"create and read":       func() error { return openWith(".tmp-9", os.O_RDWR|os.O_CREATE|os.O_EXCL) },
		"create in a sibling's": func() error { return openWith("../gpu02/.tmp-9", create) },
		"create in a sibling /": func() error { return openWith("/gpu02/.tmp-9", create) },
		"create a page":         func() error { return openWith("index.html", create) },
		"create .htaccess":      func() error { return openWith(".htaccess", create) },
		"rename to a page":      func() error { return put(c, ".tmp-a", "index.html", nil) },
		"rename to a sibling":   func() error { return put(c, ".tmp-b", "../gpu02/"+spool.LatestName, nil) },
		"rename to a bad hour":  func() error { return put(c, ".tmp-c", "hour-20261399T05-b1.jsonl.gz", nil) },
		"rename to a far hour":  func() error { return put(c, ".tmp-d", "hour-20301120T05-b1.jsonl.gz", nil) },
		"rename to an old hour": func() error { return put(c, ".tmp-d2", "hour-20261101T05-b1.jsonl.gz", nil) },
		"rename the final away": func() error { return c.PosixRename(spool.LatestName, ".tmp-e") },
		"rename what is not":    func() error { return c.PosixRename(".tmp-f", spool.LatestName) },
		"plain rename":          func() error { return c.Rename(spool.LatestName, ".tmp-g") },
		"remove the final":      func() error { return c.Remove(spool.LatestName) },
		"remove a sibling's":    func() error { return c.Remove("../gpu02/" + spool.LatestName) },
		"list":                  func() error { _, err := c.ReadDir("."); return err },
		"stat":                  func() error { _, err := c.Stat(spool.LatestName); return err },
		"lstat":                 func() error { _, err := c.Lstat(spool.LatestName); return err },
		"symbolic link":         func() error { return c.Symlink("/etc/passwd", ".tmp-h") },
		"hard link":             func() error { return c.Link(spool.LatestName, ".tmp-i") },
		"read link":             func() error { _, err := c.ReadLink(spool.LatestName); return err },
		"make a directory":      func() error { return c.Mkdir("sub") },
		"remove a directory":    func() error { return c.RemoveDirectory(".") },
		"change the mode":       func() error { return c.Chmod(spool.LatestName, 0o777) },
		"change an upload's mode": func() error {
			if err := openWith(".tmp-j", create); err != nil {
				t.Error(err)
			}
			return c.Chmod(".tmp-j", 0o777)
		},
		"change the time":        func() error { return c.Chtimes(spool.LatestName, testNow, testNow) },
		"change the length":      func() error { return c.Truncate(spool.LatestName, 1<<40) },
		"ask about free space":   func() error { _, err := c.StatVFS("."); return err },
		"a second SFTP session":  func() error { _, err := sftp.NewClient(client); return err },
		"forward a port":         func() error { _, err := client.Dial("tcp", b.addr); return err },
		"listen through the box": func() error { _, err := client.Listen("tcp", "127.0.0.1:0"); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s: allowed", what)
		}
		for _, name := range names(t, b.drop("gpu01")) { // or the next is refused for the number of files
			if strings.HasPrefix(name, ".tmp-") {
				if err := c.Remove(name); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
	other, err := b.login(t, "gpu01")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Dial("tcp", b.addr); err == nil {
		t.Error("a port was forwarded")
	}
	session, err := other.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestSubsystem("sftp-server"); err == nil {
		t.Error("another subsystem was started")
	}
	if err := session.Start("sftp"); err == nil {
		t.Error("a command of the name of the subsystem ran")
	}
	if out, err := session.Output("id"); err == nil {
		t.Errorf("a command ran: %s", out)
	}
	other.Close()
	client.Close()
	for host, want := range map[string]string{"gpu01": "of gpu01", "gpu02": "of gpu02"} {
		got, err := os.ReadFile(filepath.Join(b.drop(host), spool.LatestName))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	eventually(t, "what was begun is gone", func() bool {
		return cmp.Equal(names(t, b.drop("gpu01")), []string{spool.LatestName}) &&
			cmp.Equal(names(t, b.drop("gpu02")), []string{spool.LatestName})
	})
}

func TestSizesAndCounts(t *testing.T) {
	b := start(t, Limits{FileBytes: 1000, DropBytes: 2500, DropFiles: 4}, "gpu01")
	c := b.open(t, "gpu01")
	if err := put(c, ".tmp-1", spool.LatestName, bytes.Repeat([]byte("x"), 1001)); err == nil {
		t.Error("a file over the limit was taken")
	}
	f, err := c.OpenFile(".tmp-2", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 8<<40); err == nil {
		t.Error("a byte at 8 TiB was taken")
	}
	if err := f.Close(); err == nil {
		t.Error("closing after a refused write succeeds")
	}
	if err := c.PosixRename(".tmp-2", spool.LatestName); err == nil {
		t.Error("a file with a refused write was renamed into place")
	}
	half, err := c.OpenFile(".tmp-2b", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := half.WriteAt(make([]byte, 500), 500); err != nil {
		t.Errorf("the second half of as much as there may be: %v", err)
	}
	if _, err := half.WriteAt(make([]byte, 501), 500); err == nil {
		t.Error("a second half over the limit was taken")
	}
	half.Close()
	for _, temp := range []string{".tmp-1", ".tmp-2", ".tmp-2b"} {
		if err := c.Remove(temp); err != nil {
			t.Errorf("removing %s: %v", temp, err)
		}
	}
	// An open file is not a finished one.
	if f, err = c.OpenFile(".tmp-3", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err != nil {
		t.Fatal(err)
	}
	if err := c.PosixRename(".tmp-3", spool.LatestName); err == nil {
		t.Error("an open file was renamed into place")
	}
	f.Close()
	if err := c.Remove(".tmp-3"); err != nil {
		t.Fatal(err)
	}
	var last error
	taken := 0
	for n := 0; n < 10 && last == nil; n++ {
		if last = put(c, ".tmp-4", fmt.Sprintf("hour-20261120T%02d-b1.jsonl.gz", n%7),
			make([]byte, 900-n)); last == nil {
			taken++
		}
	}
	if taken < 2 || taken > 4 {
		t.Errorf("%d files of 900 bytes fit into 2500 bytes", taken)
	}
	// Handles that are never closed are bounded.
	c2 := b.open(t, "gpu01")
	for _, name := range names(t, b.drop("gpu01")) {
		os.Remove(filepath.Join(b.drop("gpu01"), name))
	}
	opened := 0
	for n := range 100 {
		if _, err := c2.OpenFile(".tmp-h", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err != nil {
			break
		}
		opened = n + 1
		c2.Remove(".tmp-h")
	}
	if opened == 0 || opened > maxTemps {
		t.Errorf("%d handles open at once, want at most %d", opened, maxTemps)
	}
}

// TestDropsAreFilledToTheLimit: the last byte, the last file and the last upload at once are taken, and the next is
// not. What the sweep removes makes room.
func TestDropsAreFilledToTheLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		sizes  []int // that are taken
		next   int   // of an upload that is not, -1 for one that cannot be opened
	}{
		"bytes of a file":   {Limits{FileBytes: 100, DropBytes: 1000}, []int{100}, 101},
		"bytes of the drop": {Limits{FileBytes: 100, DropBytes: 150}, []int{100}, 51},
		"the last byte":     {Limits{FileBytes: 100, DropBytes: 150}, []int{100, 50}, -1},
		"number of files":   {Limits{DropFiles: 2}, []int{1, 1}, -1},
		"number of uploads": {Limits{}, make([]int, maxTemps), -1},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			drops, err := openDrops(data)
			if err != nil {
				t.Fatal(err)
			}
			drop, err := openDrop(drops, "gpu01", withDefaults(tt.limits), testClock)
			if err != nil {
				t.Fatal(err)
			}
			defer drop.close()
			old, at := filepath.Join(data, "drop", "gpu01", ".tmp-old"), time.Now().Add(-time.Hour)
			if err := errors.Join(os.WriteFile(old, make([]byte, 100), 0o644), os.Chtimes(old, at, at)); err != nil {
				t.Fatal(err)
			}
			upload := func(name string, size int) error {
				request := sftp.NewRequest("Open", name)
				request.Flags = 0x2 | 0x8 | 0x20 // to write a new file: SSH_FXF_WRITE, CREAT and EXCL
				f, err := drop.Filewrite(request)
				if err != nil {
					return err
				}
				_, err = f.WriteAt(make([]byte, size), 0)
				return err
			}
			for i, size := range tt.sizes {
				if err := upload(fmt.Sprint(".tmp-", i), size); err != nil {
					t.Fatalf("upload %d of %d bytes: %v", i, size, err)
				}
			}
			if err := upload(".tmp-more", max(tt.next, 0)); err == nil ||
				(tt.next >= 0) != errors.Is(err, errTooLarge) {
				t.Errorf("one more, of %d bytes: %v", tt.next, err)
			}
		})
	}
}

// TestADropIsLookedAtAgain: what others have put into it meanwhile counts when a session has used up
// what it may upload until then.
func TestADropIsLookedAtAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		size   int // of each upload
		taken  int // after the drop was filled by others
	}{
		"files": {Limits{DropFiles: 50}, 1, lookFiles - 1},
		"bytes": {Limits{FileBytes: 100, DropBytes: 1000}, 60, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, tt.limits, "gpu01")
			c := b.open(t, "gpu01")
			upload := func() error { return put(c, ".tmp-1", spool.LatestName, make([]byte, tt.size)) }
			if err := upload(); err != nil {
				t.Fatal(err)
			}
			for n := range 50 {
				if err := os.WriteFile(filepath.Join(b.drop("gpu01"), fmt.Sprint(".tmp-other-", n)), make([]byte, 50),
					0o644); err != nil {
					t.Fatal(err)
				}
			}
			taken := 0
			for range tt.taken + 1 {
				if upload() == nil {
					taken++
				}
			}
			if taken != tt.taken {
				t.Errorf("%d uploads were taken into a full drop, want %d until it is looked at again", taken, tt.taken)
			}
		})
	}
}

// TestABundleOfAnotherHostIsRefused: two nodes with one key would replace each other's.
func TestABundleOfAnotherHostIsRefused(t *testing.T) {
	b := start(t, Limits{}, "gpu01", "gpu02")
	bundle := func(host string) []byte {
		snap := &snapshot.Snapshot{Seq: 1, CollectedAt: snapshot.TimeOf(testNow)}
		data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: "b", Snapshot: snap})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := put(b.open(t, "gpu01"), ".tmp-1", spool.LatestName, bundle("gpu01")); err != nil {
		t.Fatal(err)
	}
	other := b.open(t, "gpu01")
	for range 2 {
		err := put(other, ".tmp-2", spool.LatestName, bundle("gpu02"))
		if err == nil || !strings.Contains(err.Error(), "this key is for gpu01, and the file is of gpu02") {
			t.Errorf("a bundle of gpu02 with the key of gpu01: %v", err)
		}
		if err := other.Remove(".tmp-2"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(b.drop("gpu01"), spool.LatestName)); err != nil ||
		!bytes.Equal(got, bundle("gpu01")) {
		t.Errorf("the drop holds %d bytes (%v)", len(got), err)
	}
}

// TestHoursOfTheFuture: a node's clock may be a day and two hours ahead, as by a wrong zone.
func TestHoursOfTheFuture(t *testing.T) {
	now := testNow.Truncate(time.Hour)
	b := startAt(t, Limits{}, func() time.Time { return now }, "gpu01")
	c := b.open(t, "gpu01")
	for name, want := range map[string]bool{"hour-20261121T08-b1.jsonl.gz": true,
		"hour-20261121T09-b1.jsonl.gz": false} {
		if err := put(c, ".tmp-"+name, name, []byte("hour")); (err == nil) != want {
			t.Errorf("%s at %s: %v", name, now, err)
		}
	}
}

func TestSweep(t *testing.T) {
	b := start(t, Limits{}, "gpu01")
	dir := b.drop("gpu01")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{
		".tmp-old": 11 * time.Minute, ".tmp-new": time.Minute, "notes.txt": 99 * time.Hour,
		"hour-20261118T05-b1.jsonl.gz": 0, "hour-20261118T06-b1.jsonl.gz": 0,
		"hour-20261120T05-b1.jsonl.gz": 99 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	b.open(t, "gpu01")
	want := []string{".tmp-new", "hour-20261118T06-b1.jsonl.gz", "hour-20261120T05-b1.jsonl.gz"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("after the sweep (-want +got):\n%s", diff)
	}
}

func TestALostConnectionLeavesNothing(t *testing.T) {
	b := start(t, Limits{}, "gpu01")
	client, err := b.login(t, "gpu01")
	if err != nil {
		t.Fatal(err)
	}
	c, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenFile(".tmp-1", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".tmp-1"}, names(t, b.drop("gpu01"))); diff != "" {
		t.Fatalf("while writing (-want +got):\n%s", diff)
	}
	client.Close()
	eventually(t, "the temporary is gone", func() bool { return len(names(t, b.drop("gpu01"))) == 0 })
}

func TestASymlinkedDropIsRefused(t *testing.T) {
	b := start(t, Limits{}, "gpu01", "gpu02")
	if err := os.MkdirAll(b.drop("gpu02"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gpu02", b.drop("gpu01")); err != nil {
		t.Fatal(err)
	}
	client, err := b.login(t, "gpu01")
	if err == nil {
		_, err = sftp.NewClient(client)
	}
	if err == nil || !strings.Contains(err.Error(), "the drop of this host cannot be opened") {
		t.Errorf("gpu01 at the drop of gpu02: %v", err)
	}
	b.log.has(t, "ERROR", "opening the drop", "gpu01 is a symlink, and should be a directory")
}
