package remotefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
)

func TestRefusals(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	for _, tc := range []struct{ name, file, code string }{
		{"no such directory", filepath.Join(s.Dir, "none", "comments.json"), publisher.CodeRemoteDir},
		{"a directory", s.Dir, publisher.CodeRemoteDenied},
	} {
		err := book(context.Background(), open(t, s, tc.file), "x", 0)
		if publisher.Code(err) != tc.code {
			t.Errorf("%s: %v, want code %s", tc.name, err, tc.code)
		}
	}
	if _, err := New(options(s, "")); err == nil {
		t.Error("a target without a path was taken")
	}
	o := options(s, filepath.Join(s.Dir, "comments.json"))
	o.Server.KnownHosts = []string{filepath.Join(t.TempDir(), "none")}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := book(context.Background(), f, "x", 0); publisher.Code(err) != publisher.CodeHostUnknown {
		t.Errorf("a server nobody knows: %v, want code %s", err, publisher.CodeHostUnknown)
	}
	if got := names(t, s.Dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestServerWithoutPosixRenameIsRefused(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P posix-rename"})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	err := book(context.Background(), open(t, s, file), "x", 0)
	if publisher.Code(err) != publisher.CodeNoPosixRename {
		t.Fatalf("got %v, want code %s", err, publisher.CodeNoPosixRename)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json"}) {
		t.Errorf("left behind: %v", got)
	}
}

// A line that is cut at any byte leaves a whole file, and the change either is
// in it or is not.
func TestLineCut(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.NewProxy(t, s.Addr)
	known, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	knownHere := filepath.Join(t.TempDir(), "known_hosts")
	write(t, knownHere, strings.ReplaceAll(string(known), fmt.Sprintf("]:%d ", s.Port), fmt.Sprintf("]:%d ", p.Port)))
	for _, bytes := range []int64{2800, 3400, 4000, 4600, 5200} {
		file := filepath.Join(t.TempDir(), "comments.json")
		write(t, file, `{"b": [{"name": "old", "comment": "old"}]}`)
		o := options(s, file)
		o.Server.Target.Port, o.Server.KnownHosts = p.Port, []string{knownHere}
		f, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		p.CutAfter(bytes)
		err = book(context.Background(), f, "x", 0)
		p.CutAfter(-1)
		f.Close()
		got := comments(t, file)
		if !slices.Contains(got, "old") || err == nil && !slices.Contains(got, "x-0") || slices.Contains(got, "x-0") && len(got) != 2 {
			t.Errorf("cut after %d bytes (%v): %v", bytes, err, got)
		}
	}
}

// A server that grants no more than it must: without second names, without a
// sync, without changes of mode, and with a listing that is denied.
func TestFrugalServer(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P hardlink,fsync,setstat,fsetstat,realpath,opendir"})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	f := open(t, s, file)
	saved := false
	f.wrap = watch(func(what string) {
		if what == "take" && !saved {
			saved = true
			write(t, file, `{"b": [{"name": "hand", "comment": "hand"}]}`)
		}
	})
	if err := book(context.Background(), f, "x", 0); err != nil {
		t.Fatal(err)
	}
	if got := comments(t, file); !slices.Equal(got, []string{"hand", "x-0"}) {
		t.Errorf("bookings %v", got)
	}
	write(t, filepath.Join(s.Dir, ".comments.json.lock"), "token\nthe dead\n")
	age(t, filepath.Join(s.Dir, ".comments.json.lock"))
	if err := book(context.Background(), f, "y", 1); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json"}) {
		t.Errorf("left behind: %v", got)
	}
}

// Who may only read is told what is missing, and nothing changes.
func TestServerThatTakesNoWrites(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P write"})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	f := open(t, s, file)
	if data, _, err := f.Read(context.Background()); err != nil || string(data) != "{}" {
		t.Fatalf("%q, %v", data, err)
	}
	err := book(context.Background(), f, "x", 0)
	var hinted interface{ Hint() string }
	if publisher.Code(err) != publisher.CodeRemoteDenied || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "posix-rename") {
		t.Errorf("got %v, want code %s and a hint", err, publisher.CodeRemoteDenied)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json"}) {
		t.Errorf("left behind: %v", got)
	}
}
