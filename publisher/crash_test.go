package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// TestKilledPush is run by the test that kills it.
func TestKilledPush(t *testing.T) {
	spec := os.Getenv("PUBLISHER_TEST_PUSH")
	if spec == "" {
		return
	}
	part := strings.Split(spec, "|")
	target, err := publisher.ParseTarget(part[0])
	if err != nil {
		t.Fatal(err)
	}
	src := newMemorySpool()
	src.set(publisher.LatestName, sealed(7))
	publish(t,
		open(t, publisher.Options{
			Target: target, Identity: []string{part[1]}, KnownHosts: []string{part[2]}, StateDir: part[3],
		}),
		src)
}

func TestKilledPushIsCleanedUpByTheNext(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	proxy := sshtest.NewProxy(t, s.Addr)
	o := toServer(t, s, proxy.Port)
	src := newMemorySpool()
	src.set(publisher.LatestName, []byte("before"))
	publish(t, open(t, o), src)

	proxy.SetDelay(20 * time.Millisecond) // so that there is a middle to be killed in
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestKilledPush$")
	cmd.Env = append(os.Environ(),
		"PUBLISHER_TEST_PUSH="+strings.Join([]string{o.Target.String(), o.Identity[0], o.KnownHosts[0], o.StateDir},
			"|"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	temporaries := func() int {
		found, _ := filepath.Glob(filepath.Join(s.Dir, ".tmp-*"))
		return len(found)
	}
	eventually(t, "the push is under way", func() bool { return temporaries() == 1 })
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	if got := content(t, s.Dir); got[publisher.LatestName] != "before" || len(got) != 2 {
		t.Fatalf("after the kill the drop holds %d files, latest %q", len(got), got[publisher.LatestName])
	}
	proxy.SetDelay(0)
	src.set(publisher.LatestName, []byte("after"))
	publish(t, open(t, o), src)
	if got := content(t, s.Dir); got[publisher.LatestName] != "after" || len(got) != 1 {
		t.Errorf("after the next push the drop holds %v", got)
	}
	if left := content(t, o.StateDir); len(left) != 0 {
		t.Errorf("upload records left behind: %v", left)
	}
}

// TestEachFileIsSyncedBeforeItsRename watches the system calls of the real server.
func TestEachFileIsSyncedBeforeItsRename(t *testing.T) {
	strace := need.Program(t, "strace")
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	o := toServer(t, s, s.Port)
	o.Keep = true
	p := open(t, o)
	publish(t, p, newMemorySpool(publisher.LatestName))
	log := filepath.Join(t.TempDir(), "calls")
	watch := exec.Command(strace, "-f", "-o", log, "-e", "trace=fsync,rename,renameat,renameat2", "-p",
		strconv.Itoa(s.SFTP()[0]))
	stderr, err := watch.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := stderr.Read(make([]byte, 200)); n == 0 { // "Process 1 attached"
		need.Skip(t, fmt.Sprintf("attaching strace: %v", err))
	}
	publish(t, p, newMemorySpool(publisher.LatestName))
	p.Close()
	_ = watch.Wait() // the session ends with the connection
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if sync, rename := bytes.Index(calls, []byte("fsync(")), bytes.Index(calls, []byte("rename")); sync < 0 ||
		rename < sync {
		t.Errorf("the server was asked for:\n%s", calls)
	}
}

func TestTwoPublishersOfOneHost(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	o := toServer(t, s, s.Port)
	o.Keep = true
	done := make(chan error, 2)
	for n := range 2 {
		p := open(t, o)
		go func() {
			src := newMemorySpool()
			for i := range 40 {
				src.set(publisher.LatestName, sealed(1000*n+i))
				if _, err := p.Publish(context.Background(), src); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for left := 2; left > 0; {
		select {
		case err := <-done:
			if left--; err != nil {
				t.Error(err)
			}
		default:
			if data, err := os.ReadFile(filepath.Join(s.Dir, publisher.LatestName)); err == nil && !whole(data) {
				t.Fatal("torn")
			}
		}
	}
	if got := content(t, s.Dir); len(got) != 1 {
		t.Errorf("the drop holds %d files", len(got))
	}
}

func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name, options, command, code string
		size                         int
	}{
		{"space, and the server tells", "size=256k", "internal-sftp", "remote:nospace", 900 << 10},
		{"space, and the server does not", "size=256k", sshtest.LockedDown, publisher.CodeRemoteFailure, 900 << 10},
		{"inodes", "size=1m,nr_inodes=2", "internal-sftp", "remote:noinode", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			need.Root(t)
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, c.options); err != nil {
				need.Skip(t, fmt.Sprintf("mounting a small file system: %v", err))
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			s := sshtest.Start(t, sshtest.Options{Command: c.command, Dir: dir})
			p := open(t, toServer(t, s, s.Port))
			src := newMemorySpool(publisher.LatestName)
			if c.code != "remote:noinode" {
				publish(t, p, src)
			} else if err := os.WriteFile(
				filepath.Join(dir, publisher.LatestName), []byte("content of "+publisher.LatestName), 0o644); err != nil {
				t.Fatal(err)
			}
			src.set(publisher.LatestName, bytes.Repeat([]byte("x"), c.size))
			if e := refused(t, p, src, c.code); !e.Temporary() || e.Hint() == "" {
				t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
			}
			if got := content(t, dir); len(got) != 1 || got[publisher.LatestName] != "content of "+publisher.LatestName {
				t.Errorf("the drop holds %d files", len(got))
			}
		})
	}
}

// TestUploadRecordsEndWithTheirFiles: a push over a connection that had died
// leaves a note of a temporary that never was. The next connection finds that
// out, also where the account may do nothing but write.
func TestUploadRecordsEndWithTheirFiles(t *testing.T) {
	for name, command := range map[string]string{"stock": "", "locked down": sshtest.LockedDown} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Options{Command: command})
			o := toServer(t, s, s.Port)
			o.Keep = true
			p := open(t, o)
			for n := range 4 {
				src := newMemorySpool()
				src.set(publisher.LatestName, []byte{byte('0' + n)})
				publish(t, p, src)
				s.Stop()
				s.Restart()
			}
			publish(t, p, newMemorySpool(publisher.LatestName))
			if left := content(t, o.StateDir); len(left) > 0 {
				t.Errorf("upload records left behind: %v", left)
			}
			if left := content(t, s.Dir); len(left) != 1 {
				t.Errorf("the drop holds %v", left)
			}
		})
	}
	t.Run("drop box", func(t *testing.T) {
		o, drop := receiver(t)
		proxy := sshtest.NewProxy(t, net.JoinHostPort(o.Target.Host, strconv.Itoa(o.Target.Port)))
		raw, err := os.ReadFile(o.KnownHosts[0])
		if err != nil {
			t.Fatal(err)
		}
		o.KnownHosts = []string{writeFile(t, filepath.Join(t.TempDir(), "known"),
			strings.ReplaceAll(string(raw), fmt.Sprintf("]:%d ", o.Target.Port), fmt.Sprintf("]:%d ", proxy.Port)))}
		o.Target.Port = proxy.Port
		o.Keep = true
		p := open(t, o)
		for range 4 {
			publish(t, p, newMemorySpool(publisher.LatestName))
			proxy.CutAfter(0)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if _, err := p.Publish(ctx, newMemorySpool(publisher.LatestName)); err == nil {
				t.Error("the line was not cut")
			}
			cancel()
			proxy.CutAfter(-1)
		}
		publish(t, p, newMemorySpool(publisher.LatestName))
		if left := content(t, o.StateDir); len(left) > 0 {
			t.Errorf("upload records left behind: %v", left)
		}
		if left := content(t, drop); len(left) != 1 {
			t.Errorf("the drop holds %v", left)
		}
	})
}
