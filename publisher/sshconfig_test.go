package publisher_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func TestAgent(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	raw, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ssh.ParseRawPrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, conn)
		}
	}()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SSH_AUTH_SOCK", socket)

	t.Run("alone", func(t *testing.T) {
		o := toServer(t, s, s.Port)
		o.Identity = nil
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	})
	t.Run("for a key with a passphrase", func(t *testing.T) {
		// The file is locked and the agent holds the very key.
		block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("words"))
		if err != nil {
			t.Fatal(err)
		}
		locked := writeFile(t, filepath.Join(t.TempDir(), "locked"), string(pemOf(block)))
		o := toServer(t, s, s.Port)
		o.Identity = []string{locked}
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	})
	t.Run("for a key of which only the public half is here", func(t *testing.T) {
		o := toServer(t, s, s.Port)
		o.Identity = []string{filepath.Join(t.TempDir(), "elsewhere")}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, o.Identity[0]+".pub", string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	})
	t.Run("not for a key that was not named", func(t *testing.T) {
		o := toServer(t, s, s.Port)
		o.Identity = []string{filepath.Join(t.TempDir(), "other")}
		sshtest.WriteKey(t, o.Identity[0], "ed25519", "")
		refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeAuth)
	})
	t.Run("stale socket", func(t *testing.T) {
		t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "gone"))
		publish(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName))
	})
}

func TestProxyJump(t *testing.T) {
	last, jump := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown}), sshtest.Start(t, sshtest.Options{})
	options := func(t *testing.T, known ...string) publisher.Options {
		t.Setenv("SSH_AUTH_SOCK", "")
		config := fmt.Sprintf(
			"Host last\n HostName %s\n Port %d\n IdentityFile %s\n UserKnownHostsFile %s\n HostKeyAlias the-last\n ProxyJump jump\nHost jump\n HostName %s\n Port %d\n IdentityFile %s\n UserKnownHostsFile %s\n",
			last.Host, last.Port, last.Key, known[0], jump.Host, jump.Port, jump.Key, known[1])
		return publisher.Options{
			Target: publisher.Target{Scheme: "sftp", User: last.User, Host: "last"}, Budget: need.Patience,
			ResolveConfig: sshConfig(t, writeFile(t, filepath.Join(t.TempDir(), "config"), config)),
		}
	}
	alias := writeFile(t, filepath.Join(t.TempDir(), "known"),
		"the-last "+string(ssh.MarshalAuthorizedKey(last.Public["ed25519"])))

	p := open(t, options(t, alias, jump.KnownHosts))
	publish(t, p, newMemorySpool(publisher.LatestName))
	if len(content(t, last.Dir)) != 1 {
		t.Error("nothing arrived")
	}
	p.Close()
	eventually(t, "no goroutine is left", func() bool { return connectionGoroutines() == 0 })

	// Each hop's key is checked.
	e := refused(t, open(t, options(t, alias, alias)), newMemorySpool(publisher.LatestName), sshclient.CodeHostUnknown)
	if !strings.Contains(e.Error(), jump.Addr) {
		t.Errorf("the message does not name the jump host: %v", e)
	}
	e = refused(t, open(t, options(t, jump.KnownHosts, jump.KnownHosts)), newMemorySpool(publisher.LatestName),
		sshclient.CodeHostUnknown)
	if !strings.Contains(e.Error(), last.Addr) || !strings.Contains(e.Hint(), "the-last") {
		t.Errorf("message %v, hint %s", e, e.Hint())
	}

	// A last hop that does not answer, and one that is not there.
	resume := last.Freeze(last.PID())
	o := options(t, alias, jump.KnownHosts)
	o.Budget = testBudget
	within(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)
	resume()
	last.Stop()
	if e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeRefused); !e.Temporary() {
		t.Errorf("a server that is away behind a jump host counts as a fault of the settings: %v", e)
	}
}
