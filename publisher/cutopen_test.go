package publisher

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
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

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
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
		"cut":              {func(line net.Conn, _ ssh.NewChannel) { line.Close() }, CodeNoSFTP, true, "sshd's log"},
		"prohibited":       {reject(ssh.Prohibited), CodeNoSFTP, false, "sshd's log"},
		"no such kind":     {reject(ssh.UnknownChannelType), CodeNoSFTP, false, "sshd's log"},
		"shortage":         {reject(ssh.ResourceShortage), CodeBusy, true, "MaxSessions"},
		"as sshd at limit": {reject(ssh.ConnectionFailed), CodeNoSFTP, true, "MaxSessions"},
	} {
		t.Run(name, func(t *testing.T) {
			o := answersChannels(t, c.answer)
			o.Budget = 5 * time.Second
			e := refused(t, open(t, o), newMemorySpool(LatestName), c.code)
			if e.Temporary() != c.temporary || !strings.Contains(e.Hint(), c.hint) {
				t.Errorf("temporary is %v: %v, hint %s", e.Temporary(), e, e.Hint())
			}
		})
	}
}

// TestOpeningASessionEnds: a session that is never answered is given up when the time is over, also where nothing
// happens on the connection by which a deadline of its own could end.
func TestOpeningASessionEnds(t *testing.T) {
	o := letsIn(t, func(net.Conn, <-chan ssh.NewChannel) { <-t.Context().Done() })
	client, err := ssh.Dial("tcp", net.JoinHostPort(o.Target.Host, strconv.Itoa(o.Target.Port)), &ssh.ClientConfig{
		User: "n", Auth: []ssh.AuthMethod{ssh.PublicKeys(newSigner(t))}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := openSFTP(ctx, client)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("opening a session that is never answered: %v", err)
		}
	case <-time.After(need.Patience):
		t.Fatal("opening a session does not end")
	}
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestReceiveSaysWhyItRefuses: a node that gpuboard receive turns away learns why, before the login and after it.
func TestReceiveSaysWhyItRefuses(t *testing.T) {
	o, _ := receiver(t)
	o.Budget, o.StateDir = testBudget, ""
	var said []string
	o.Failing = func(err error) { said = append(said, Code(err)+" "+err.Error()) }

	kept := o
	kept.Keep, kept.Budget = true, healBudget
	for range dropbox.DefaultLimits().PerHost {
		publish(t, open(t, kept), newMemorySpool(LatestName))
	}
	e := refused(t, open(t, o), newMemorySpool(LatestName), CodeBusy)
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
	said, o.retryCap = nil, time.Millisecond
	if _, err := open(t, o).Publish(t.Context(), newMemorySpool(LatestName)); err == nil {
		t.Error("published beside all the logins that an address may have")
	}
	// The reset of a connection may overtake the words, so one attempt of many is enough.
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.HasPrefix(s, CodeBusy) && strings.Contains(s, "too many logins at once from this address")
	}) {
		t.Errorf("before the login: %q", said)
	}
}

// answersChannels is how to reach a server that lets everybody in, and answers in this way
// when a channel is to be opened.
func answersChannels(t *testing.T, answer func(net.Conn, ssh.NewChannel)) Options {
	t.Helper()
	return letsIn(t, func(line net.Conn, channels <-chan ssh.NewChannel) {
		for asked := range channels {
			answer(line, asked)
		}
	})
}

// letsIn is how to reach a server that lets everybody in, and then does this.
func letsIn(t *testing.T, serve func(net.Conn, <-chan ssh.NewChannel)) Options {
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
	return Options{Target: Target{Scheme: "sftp", User: "n", Host: "127.0.0.1", Port: port},
		Identity: []string{identity}, KnownHosts: []string{known}, StateDir: dir}
}

// TestFailingIsToldOfAttemptsThatAreMadeAgain: Failing is called while Publish still tries, but not because a kept
// connection broke.
func TestFailingIsToldOfAttemptsThatAreMadeAgain(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := toServer(t, s, s.Port)
	o.Keep = true
	var told []string
	o.Failing = func(err error) { told = append(told, Code(err)) }
	p, src := open(t, o), newMemorySpool(LatestName)
	publish(t, p, src)
	if err := p.conn.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	src.set(LatestName, []byte("news"))
	publish(t, p, src)
	if len(told) != 0 {
		t.Errorf("of a kept connection: %v", told)
	}
	p.disconnect()
	s.Stop()
	p.opts.Budget = 2 * time.Second // a login before took longer on a busy machine
	refused(t, p, newMemorySpool(LatestName), CodeRefused)
	if len(told) == 0 || told[0] != CodeRefused {
		t.Errorf("of a server that is away: %v", told)
	}
}
