// This is inside the package because nobody outside sees a wait before it is over: an hour of pushes takes an hour, a
// fleet whose retries come in step floods its server by chance, and that a library never answers happens once in many
// connections.

package publisher

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
)

// WithClock are the options of a publisher whose time for logins is this one.
func (o Options) WithClock(clock func() time.Time) Options {
	o.clock = clock
	return o
}

func TestFullJitter(t *testing.T) {
	waits := jitter()
	bound, longest := retryBase, time.Duration(0)
	for n := range 70 {
		d := waits.NextBackOff()
		if d < 0 || d > bound+1 { // the library rounds up
			t.Fatalf("try %d: %v is not within %v", n, d, bound)
		}
		bound, longest = min(bound*2, retryCap), max(longest, d)
	}
	if longest < 6*time.Second {
		t.Errorf("the longest of 70 waits is %v, and the bound is %v", longest, retryCap)
	}
	for n, bound := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		longest = 0
		for range 70 {
			waits := jitter()
			for range n {
				waits.NextBackOff()
			}
			longest = max(longest, waits.NextBackOff())
		}
		if longest > bound+1 || longest < bound*3/4 {
			t.Errorf("the longest of 70 waits before retry %d is %v, and the bound is %v", n+1, longest, bound)
		}
	}
}

// TestOpeningASessionEnds: a session that is never answered is given up when the time is over, also where nothing
// happens on the connection by which a deadline of its own could end.
func TestOpeningASessionEnds(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		line, err := listener.Accept()
		if err != nil {
			return
		}
		defer line.Close()
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(signer)
		if _, _, requests, err := ssh.NewServerConn(line, config); err == nil {
			ssh.DiscardRequests(requests) // and no channels
		}
	}()
	client, err := ssh.Dial("tcp", listener.Addr().String(),
		&ssh.ClientConfig{User: "n", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := sshclient.Await(ctx, func() (*sftp.Client, error) { return sftp.NewClient(client) })
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
