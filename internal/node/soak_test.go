package node

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/soak"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher/dropbox"
)

// TestSoakOfANode is the loop of a node, collecting and pushing over SFTP
// through an sshd or a drop box that is started again now and then.
func TestSoakOfANode(t *testing.T) {
	need.Time(t, "it makes a hundred cycles")
	t.Run("sshd", func(t *testing.T) {
		s := soak.New(t)
		drop := s.Path("drop")
		if err := os.Mkdir(drop, 0o755); err != nil {
			t.Fatal(err)
		}
		server := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown, Dir: drop})
		s.Between = func(n int) {
			if n%(s.Cycles/12) == 3 {
				server.Stop()
				server.Restart()
			}
		}
		soakLoop(s, drop, fmt.Sprintf("sftp://%s@%s", server.User, server.Addr), server.Key, server.KnownHosts)
		for end := time.Now().Add(need.Patience); len(server.Sessions()) > 0; time.Sleep(20 * time.Millisecond) { // polling for processes
			if time.Now().After(end) {
				t.Fatalf("%d processes of sessions are left", len(server.Sessions()))
			}
		}
	})
	t.Run("drop box", func(t *testing.T) {
		s := soak.New(t)
		data := s.Path("data")
		for _, dir := range []string{data, s.Path("keys"), filepath.Join(data, "drop")} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := dropbox.GenerateKey(s.Path("keys/gpu01")); err != nil {
			t.Fatal(err)
		}
		// Not a port that the kernel gives to others: nobody takes it between two starts.
		listen := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(context.Background())
			ready, done := make(chan string, 1), make(chan error, 1)
			go func() {
				done <- dropbox.Serve(ctx,
					dropbox.Options{Data: data, Keys: s.Path("keys"), HostKey: s.Path("host_key"), Listen: listen,
						Now: func() time.Time { return s.Now },
						OnListen: func(addr net.Addr, key, _ string) {
							ready <- knownhosts.Normalize(addr.String()) + " " + key + "\n"
						}})
			}()
			select {
			case known := <-ready:
				s.Write("known", known, 0o600)
			case err := <-done:
				t.Fatal(err)
			}
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		stop := start()
		defer func() { stop() }()
		s.Between = func(n int) {
			if n%(s.Cycles/12) == 3 {
				stop()
				stop = func() {} // start can end the test
				stop = start()
			}
		}
		soakLoop(s, filepath.Join(data, "drop", "gpu01"), "sftp://gpu01@"+listen, s.Path("keys/gpu01"), s.Path("known"))
	})
}

// soakLoop runs cycles of a loop with a clock that hurries.
func soakLoop(s *soak.Soak, drop, to, identity, knownHosts string) {
	t := s.T
	t.Helper()
	capture, err := os.ReadFile("../../collector/nvidiasmi/testdata/lost-1of2-580.xml")
	if err != nil {
		t.Fatal(err)
	}
	s.Write("capture.xml", strings.ReplaceAll(string(capture), "@PID1@", fmt.Sprint(os.Getpid())), 0o644)
	s.Write("nvidia-smi", "#!/bin/sh\nexec cat "+s.Path("capture.xml")+"\n", 0o755)
	var log bytes.Buffer
	n := testNode(t,
		map[string]string{"host": "gpu01", "spool": s.Path("spool"), "nvidia_smi": s.Path("nvidia-smi"), "to": to,
			"identity": identity, "known_hosts": knownHosts})
	n.Now, n.Stderr = func() time.Time { return s.Now }, &log
	l, err := n.Loop(false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.Grow = []string{s.Path("spool"), drop}
	s.Run(func() {
		l.collect(t.Context())
		l.push(t.Context())
		l.pushEnded(t.Context(), <-l.ended)
	})
	if log.Len() > 0 {
		t.Errorf("it said:\n%s", log.String())
	}
	spooled, err := filepath.Glob(s.Path("spool/hour-*"))
	if err != nil || len(spooled) < 40 || len(spooled) > 50 {
		t.Errorf("%d hours in the spool (%v), want those of two days", len(spooled), err)
	}
	var last uint64
	for _, name := range spooled {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hour, err := snapshot.DecodeHour(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, sample := range hour.Samples {
			if last != 0 && sample.Seq != last+1 {
				t.Errorf("%s: after sample %d comes %d", name, last, sample.Seq)
			}
			last = sample.Seq
		}
	}
	delivered, err := filepath.Glob(filepath.Join(drop, "hour-*"))
	if err != nil || len(delivered) < 40 || len(delivered) > 51 {
		t.Errorf("%d hours in the drop (%v), want those of two days", len(delivered), err)
	}
}
