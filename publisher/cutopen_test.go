package publisher_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/dropbox"
)

// TestCutWhileTheChannelOpens: a line that breaks after the login, before there is a session, may
// work at the next push, and so may a server that is at a limit. One that prohibits the session
// answers so every time.
func TestCutWhileTheChannelOpens(t *testing.T) {
	reject := func(reason ssh.RejectionReason) func(net.Conn, ssh.NewChannel) {
		return func(_ net.Conn, asked ssh.NewChannel) { _ = asked.Reject(reason, "no sessions") }
	}
	for name, c := range map[string]struct {
		answer    func(net.Conn, ssh.NewChannel)
		code      string
		temporary bool
		hint      string
	}{
		"cut": {
			func(line net.Conn, _ ssh.NewChannel) { line.Close() }, publisher.CodeNoSFTP, true, "sshd's log",
		},
		"prohibited":       {reject(ssh.Prohibited), publisher.CodeNoSFTP, false, "sshd's log"},
		"no such kind":     {reject(ssh.UnknownChannelType), publisher.CodeNoSFTP, false, "sshd's log"},
		"shortage":         {reject(ssh.ResourceShortage), sshclient.CodeBusy, true, "MaxSessions"},
		"as sshd at limit": {reject(ssh.ConnectionFailed), publisher.CodeNoSFTP, true, "MaxSessions"},
	} {
		t.Run(name, func(t *testing.T) {
			o := answersChannels(t, c.answer)
			o.Budget = 5 * time.Second
			e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), c.code)
			if e.Temporary() != c.temporary || !strings.Contains(e.Hint(), c.hint) {
				t.Errorf("temporary is %v: %v, hint %s", e.Temporary(), e, e.Hint())
			}
		})
	}
}

// TestReceiveSaysWhyItRefuses: a node that gpuboard receive turns away learns why, before the login and after it.
func TestReceiveSaysWhyItRefuses(t *testing.T) {
	o, _ := receiver(t)
	o.Budget, o.StateDir = testBudget, ""
	var said []string
	o.Failing = func(err error) { said = append(said, publisher.Code(err)+" "+err.Error()) }

	kept := o
	kept.Keep, kept.Budget = true, healBudget
	for range dropbox.DefaultLimits().PerHost {
		publish(t, open(t, kept), newMemorySpool(publisher.LatestName))
	}
	e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeBusy)
	if !strings.Contains(e.Error(), "too many connections of this host") {
		t.Errorf("after the login: %v", e)
	}

	for range dropbox.DefaultLimits().SourceHandshakes { // and these never log in
		c, err := net.Dial("tcp", net.JoinHostPort(o.Target.Host, strconv.Itoa(o.Target.Port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	said, o.Budget = nil, 300*time.Millisecond
	// The reset of a connection may overtake the words, so one attempt of many is enough.
	eventually(t, "the server says why it ends a connection before the login", func() bool {
		if _, err := open(t, o).Publish(t.Context(), newMemorySpool(publisher.LatestName)); err == nil {
			t.Error("published beside all the logins that an address may have")
		}
		return slices.ContainsFunc(said, func(s string) bool {
			return strings.HasPrefix(s, sshclient.CodeBusy) &&
				strings.Contains(s, "too many logins at once from this address")
		})
	})
}

// answersChannels is how to reach a server that lets everybody in, and answers in this way
// when a channel is to be opened.
func answersChannels(t *testing.T, answer func(net.Conn, ssh.NewChannel)) publisher.Options {
	t.Helper()
	return letsIn(t, func(line net.Conn, channels <-chan ssh.NewChannel) {
		for asked := range channels {
			answer(line, asked)
		}
	})
}

// letsIn is how to reach a server that lets everybody in, and then does this.
func letsIn(t *testing.T, serve func(net.Conn, <-chan ssh.NewChannel)) publisher.Options {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions,
		error) {
		return nil, nil
	}}
	config.AddHostKey(signer)
	go func() {
		for {
			line, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer line.Close()
				_, channels, requests, err := ssh.NewServerConn(line, config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				serve(line, channels)
			}()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()
	identity, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	for path, text := range map[string]string{
		identity: string(pem.EncodeToMemory(block)),
		known:    fmt.Sprintf("[127.0.0.1]:%d %s", port, ssh.MarshalAuthorizedKey(key)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return publisher.Options{Target: publisher.Target{Scheme: "sftp", User: "n", Host: "127.0.0.1", Port: port},
		Identity: []string{identity}, KnownHosts: []string{known}, StateDir: dir}
}

// TestFailingIsToldOfAttemptsThatAreMadeAgain: Failing is called while Publish still tries, but not because a kept
// connection broke.
func TestFailingIsToldOfAttemptsThatAreMadeAgain(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := toServer(t, s, s.Port)
	o.Keep = true
	var told []string
	o.Failing = func(err error) { told = append(told, publisher.Code(err)) }
	p, src := open(t, o), newMemorySpool(publisher.LatestName)
	publish(t, p, src)
	s.Stop()
	s.Restart()
	src.set(publisher.LatestName, []byte("news"))
	publish(t, p, src)
	if len(told) != 0 {
		t.Errorf("of a kept connection: %v", told)
	}
	p.Close()
	s.Stop()
	o.Budget = 2 * time.Second // a login before took longer on a busy machine
	refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeRefused)
	if len(told) == 0 || told[0] != sshclient.CodeRefused {
		t.Errorf("of a server that is away: %v", told)
	}
}
