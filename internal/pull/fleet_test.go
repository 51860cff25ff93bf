package pull

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// fleet returns a fleet with one known_hosts of all these servers, which take the key of the first.
func fleet(t *testing.T, servers ...*sshtest.Server) *Fleet {
	t.Helper()
	known := ""
	for _, s := range servers {
		text, err := os.ReadFile(s.KnownHosts)
		if err != nil {
			t.Fatal(err)
		}
		known += string(text)
		public, err := os.ReadFile(servers[0].Key + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(s.Root, "authorized"), string(public), 0o600)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	o := optionsFor(servers[0])
	o.KnownHosts = []string{write(t, filepath.Join(dir, "known"), known, 0o600)}
	f := &Fleet{Options: o, Data: data, State: filepath.Join(dir, "state"), Interval: time.Hour}
	t.Cleanup(f.Close)
	return f
}

// TestFiftyNodes: forty answer, and ten are dead, slow, not who they were, or hostile. Each costs its own line alone.
func TestFiftyNodes(t *testing.T) {
	dir := t.TempDir()
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "nvidia-smi"), "#!/bin/sh\ncat "+capture+"\n", 0o755)
	path := "PATH=" + dir + ":" + os.Getenv("PATH")
	// What forty nodes say is asked for once: on one machine the command would take longer than any budget.
	asked := exec.Command("sh", "-c", Command())
	asked.Env = append(os.Environ(), path)
	said, err := asked.Output()
	if err != nil {
		t.Fatal(err)
	}
	good := serve(t, "ForceCommand cat "+write(t, filepath.Join(dir, "said"), string(said), 0o600)+"\n")
	silent := sshtest.NewProxy(t, good.Addr)
	silent.BlackHole()
	changed, strange, refusing := serve(t, ""), serve(t, ""), serve(t, "")
	endless, garbage, torn := serve(t, "ForceCommand yes /proc/1/stat:x\n"), serve(t,
		"ForceCommand head -c 3000000 /dev/urandom\n"), serve(t, "ForceCommand echo @1; echo @2\n")
	slow := serve(t, "ForceCommand sleep 600\n")
	f := fleet(t, good, changed, refusing, endless, garbage, torn, slow)
	f.Budget, f.Interval = 40*time.Second, 30*time.Second
	known, err := os.ReadFile(f.KnownHosts[0])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(known),
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(changed.Public["ed25519"]))),
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(good.Public["ed25519"]))))
	text += strings.ReplaceAll(text, fmt.Sprintf("]:%d ", good.Port), fmt.Sprintf("]:%d ", silent.Port))
	write(t, f.KnownHosts[0], text, 0o600)
	write(t, filepath.Join(refusing.Root, "authorized"), "", 0o600)

	var targets []Target
	for i := range 40 {
		targets = append(targets, Target{Host: fmt.Sprintf("gpu%02d", i), SSH: login(good)})
	}
	port := func(n int) string { return fmt.Sprintf("%s@127.0.0.1:%d", good.User, n) }
	want := map[string]string{}
	add := func(host, login, code string) {
		targets = append(targets, Target{Host: host, SSH: login})
		want[host] = code
	}
	add("dead1", port(sshtest.FreePort(t)), "pull:timeout")
	add("dead2", "nobody@no-such-host.invalid", "pull:timeout")
	add("silent", port(silent.Port), "pull:timeout")
	add("slow", login(slow), "pull:timeout")
	add("changed", login(changed), "pull:hostkey")
	add("strange", login(strange), "pull:hostkey")
	add("refusing", login(refusing), "pull:refused")
	add("endless", login(endless), "pull:output")
	add("garbage", login(garbage), "pull:output")
	add("torn", login(torn), "pull:output")

	drops, err := spool.OpenDrops(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	got, missing := map[string]string{}, map[string]bool{}
	for end := time.Now().Add(2 * need.Patience); ; time.Sleep(time.Second) {
		for _, p := range f.Read(t.Context(), targets) {
			if want[p.Host] != "" {
				got[p.Host] = p.Code
			}
			if len(p.Message) < 20 || p.Code == "pull:refused" &&
				!strings.Contains(p.Message, "ssh -o BatchMode=yes ") ||
				p.Code == "pull:hostkey" && !strings.Contains(p.Message, "ssh-keyscan -p ") {
				t.Errorf("%+v", p)
			}
		}
		for _, target := range targets[:40] {
			b, _, err := drops.Latest(target.Host)
			missing[target.Host] = err != nil || !b.Snapshot.Pulled || len(b.Snapshot.GPUs) != 8 ||
				b.Snapshot.Seq == 0 || b.Snapshot.IntervalSeconds != 30
			if !missing[target.Host] {
				delete(missing, target.Host)
			}
		}
		if len(missing) == 0 && fmt.Sprint(got) == fmt.Sprint(want) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("missing: %v, problems %v, want %v", missing, got, want)
		}
	}
	for host := range want {
		if _, err := os.Stat(filepath.Join(f.Data, "drop", host)); err == nil {
			t.Errorf("%s has a drop", host)
		}
	}
	tries, _ := os.ReadFile(refusing.Log)
	if n := strings.Count(string(tries), "Connection closed by authenticating user"); n > 2 {
		t.Errorf("the refused key was tried %d times", n)
	}

	f.Read(t.Context(), targets[:1]) // the others are not asked for any more
	f.Close()
	silent.Close() // it holds lines to the good sshd, which waits for a login
	for end := time.Now().Add(need.Patience); len(good.Sessions()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("sessions stay: %v", good.Sessions())
		}
	}
}

// TestOnce: a single generation reads each node, not again within the interval, and not after a refusal.
func TestOnce(t *testing.T) {
	s := serve(t, "")
	f := fleet(t, s)
	targets := []Target{{Host: "gpu07", SSH: login(s)}}
	drops, err := spool.OpenDrops(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	once := func() (uint64, []snapshot.Problem) {
		again := &Fleet{Options: f.Options, Data: f.Data, State: f.State, Interval: f.Interval, Once: true}
		problems := again.Read(t.Context(), targets)
		b, _, err := drops.Latest("gpu07")
		if err != nil {
			return 0, problems
		}
		return b.Snapshot.Seq, problems
	}
	write(t, filepath.Join(s.Root, "authorized"), "", 0o600)
	if seq, problems := once(); seq != 0 || len(problems) != 1 || problems[0].Code != "pull:refused" {
		t.Fatalf("%d, %+v", seq, problems)
	}
	tries := func() int {
		log, _ := os.ReadFile(s.Log)
		return strings.Count(string(log), "Connection from")
	}
	before := tries()
	if seq, problems := once(); seq != 0 || len(problems) != 1 || problems[0].Code != "pull:refused" ||
		tries() != before {
		t.Fatalf("after a refusal: %d, %+v, %d connections more", seq, problems, tries()-before)
	}
	fleet(t, s) // the key is taken again
	if err := os.Remove(filepath.Join(f.State, "pull", "gpu07", "refused")); err != nil {
		t.Fatal(err)
	}
	first, problems := once()
	if first == 0 || len(problems) > 0 {
		t.Fatalf("%d, %+v", first, problems)
	}
	if again, problems := once(); again != first || len(problems) > 0 {
		t.Errorf("within the interval: %d after %d, %+v", again, first, problems)
	}
	f.Interval = time.Nanosecond
	if again, problems := once(); again != first+1 || len(problems) > 0 {
		t.Errorf("after the interval: %d after %d, %+v", again, first, problems)
	}
}

// TestANodeThatPushes is not overwritten; it is said, unless nobody has named the node.
func TestANodeThatPushes(t *testing.T) {
	s := serve(t, "")
	f := fleet(t, s)
	f.Once, f.Interval = true, time.Nanosecond
	now := time.Now()
	snap := &snapshot.Snapshot{Schema: snapshot.Schema, Host: "gpu07", BootID: "11111111-2222", Seq: 7,
		CollectedAt: snapshot.TimeOf(now)}
	push := func() []byte {
		data, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: "gpu07", BootID: snap.BootID, Snapshot: snap,
				Samples: []snapshot.Sample{snap.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(f.Data, "drop/gpu07"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(f.Data, "drop/gpu07", spool.LatestName), string(data), 0o644)
		return data
	}
	read := func(any bool) ([]snapshot.Problem, string) {
		again := &Fleet{Options: f.Options, Data: f.Data, State: f.State, Interval: f.Interval, Once: true}
		problems := again.Read(t.Context(), []Target{{Host: "gpu07", SSH: login(s), Any: any}})
		data, err := os.ReadFile(filepath.Join(f.Data, "drop/gpu07", spool.LatestName))
		if err != nil {
			t.Fatal(err)
		}
		return problems, string(data)
	}
	pushed := string(push())
	if problems, data := read(false); len(problems) != 1 || problems[0].Code != "pull:pushed" || data != pushed {
		t.Errorf("%+v, overwritten: %v", problems, data != pushed)
	}
	if problems, data := read(true); len(problems) != 0 || data != pushed {
		t.Errorf("of all: %+v, overwritten: %v", problems, data != pushed)
	}
	snap.CollectedAt = snapshot.TimeOf(now.Add(-time.Hour)) // it pushes no more
	pushed = string(push())
	if problems, data := read(false); len(problems) != 0 || data == pushed {
		t.Errorf("of one that has ended to push: %+v, overwritten: %v", problems, data != pushed)
	}
}

// TestADiskThatTakesNothing: what cannot be kept here is no fault of the node.
func TestADiskThatTakesNothing(t *testing.T) {
	f := &Fleet{Options: Options{Now: time.Now}, Data: t.TempDir(),
		State: write(t, filepath.Join(t.TempDir(), "file"), "", 0o600), Interval: time.Hour, Once: true}
	problems := f.Read(t.Context(), []Target{{Host: "gpu07", SSH: "gpu07"}})
	if len(problems) != 1 || problems[0].Code != "pull:disk" || problems[0].Host != "gpu07" {
		t.Errorf("%+v", problems)
	}
}
