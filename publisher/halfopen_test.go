package publisher_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// TestVanishedClients: the machines of ten nodes lose their power. The server receives
// no end of a connection, and none of its sessions stays for ever; nor do logins, at
// another server, that were never begun.
func TestVanishedClients(t *testing.T) {
	accounts := sshtest.Accounts(t, "gpu01")
	config := accounts.ShippedConfig(t, "..")
	seconds := func(key string) int {
		m := regexp.MustCompile(`(?m)^\s*` + key + ` (\d+)$`).FindStringSubmatch(config)
		if m == nil {
			t.Fatalf("the shipped configuration does not set %s", key)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The first of the two is not how long sshd waits: 9.2 sleeps for one interval,
	// finds that not more than one has passed, and sleeps for another.
	if after := 2 * seconds("ClientAliveInterval") * (seconds("ClientAliveCountMax") + 1); after < 1 || after > 60 ||
		seconds("LoginGraceTime") > 60 {
		t.Errorf("a node that vanished is forgotten after %d s, and a login after %d s; 60 is the most", after,
			seconds("LoginGraceTime"))
	}
	wait, loginConfig := need.Patience, config
	if os.Getenv("GPUBOARD_LONG") == "1" {
		wait = 70 * time.Second
	} else { // the same, sooner
		config = regexp.MustCompile(`(ClientAliveInterval) \d+`).ReplaceAllString(config, "$1 1")
		loginConfig = regexp.MustCompile(`(LoginGraceTime) \d+`).ReplaceAllString(config, "$1 1")
	}
	s := sshtest.Start(t, sshtest.Options{Config: config})
	proxy := sshtest.NewProxy(t, s.Addr)
	var all []*publisher.Publisher
	for range 10 {
		o := toServer(t, s, proxy.Port)
		o.Target.User, o.Identity, o.Keep = accounts.Nodes[0].Name, []string{accounts.Nodes[0].Key}, true
		o.Budget = vanishedBudget
		p := open(t, o)
		publish(t, p, newMemorySpool(publisher.LatestName))
		all = append(all, p)
	}
	if n := len(s.SFTP()); n != 10 {
		t.Fatalf("%d sessions, want 10", n)
	}
	logins := sshtest.Start(t, sshtest.Options{Config: loginConfig})
	var pending []net.Conn
	for range 10 { // and these never begin to log in
		c, err := net.Dial("tcp", logins.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		pending = append(pending, c)
	}
	proxy.BlackHole()
	begin := time.Now()
	for _, c := range pending {
		_ = c.SetReadDeadline(begin.Add(wait))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("the server does not end a login that never begins: %v", err)
		}
	}
	for len(s.Sessions()) > 0 {
		if time.Since(begin) > wait {
			t.Fatalf("%d processes of sshd are left after %v", len(s.Sessions()), wait)
		}
		time.Sleep(20 * time.Millisecond) // polling for processes
	}
	t.Logf("all sessions were over %v after the nodes had vanished", time.Since(begin).Round(100*time.Millisecond))
	// To the nodes it is the server that vanished: their next push notices by itself.
	proxy.Heal()
	var pushes sync.WaitGroup
	for n, p := range all {
		pushes.Go(func() {
			src := newMemorySpool()
			src.set(publisher.LatestName, []byte{byte('0' + n)})
			if r, err := p.Publish(t.Context(), src); err != nil || r.Dialed != 1 {
				t.Errorf("node %d: %+v, %v", n, r, err)
			}
		})
	}
	pushes.Wait()
	if got := content(t, filepath.Clean(accounts.Nodes[0].Drop)); len(got[publisher.LatestName]) != 1 || len(got) != 1 {
		t.Errorf("the drop holds %v", got)
	}
}
