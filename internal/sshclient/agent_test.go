package sshclient

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/agent"

	"gpuboard/internal/testenv/need"
)

// An agent signs until the login has to be done.
func TestAgentSignsUntilTheEnd(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: &private}); err != nil {
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
	for _, over := range []bool{false, true} {
		end := time.Now().Add(need.Patience)
		if over {
			end = time.Now().Add(-time.Second)
		}
		ids := &identities{}
		defer ids.close()
		signers := ids.fromAgent(socket, end)
		if len(signers) != 1 {
			t.Fatalf("the agent has %d keys", len(signers))
		}
		if _, err := signers[0].Sign(rand.Reader, []byte("x")); (err != nil) != over {
			t.Errorf("over %v: %v", over, err)
		}
	}
}
