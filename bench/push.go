package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// one is a spool that always holds one bundle.
type one []byte

func (o one) Pending(string) ([]string, error) {
	return []string{spool.LatestName}, nil
}
func (o one) Read(string) ([]byte, error)            { return o, nil }
func (o one) Delivered(string, string, []byte) error { return nil }
func (o one) Obsolete(string) []string               { return nil }
func (o one) Withdrawn(string, ...string) error      { return nil }

// pushes is what a push costs the server, over a kept and over a fresh
// connection, and what scp costs it.
func (s *suite) pushes() error {
	f, err := s.fleet(10)
	if err != nil {
		return err
	}
	bundle, err := os.ReadFile(f.path("data", "drop", f.names[0], "latest.json.gz"))
	if err != nil {
		return err
	}
	return s.with(func(h *harness) error {
		server := sshtest.Start(h, sshtest.Options{Command: sshtest.LockedDown})
		proxy := sshtest.NewProxy(h, server.Addr)
		hosts := filepath.Join(s.dir, "known_hosts")
		if err := rewriteKnown(server, proxy, hosts); err != nil {
			return err
		}
		target, err := publisher.ParseTarget(fmt.Sprintf("sftp://%s@127.0.0.1:%d/", server.User, proxy.Port))
		if err != nil {
			return err
		}
		o := publisher.Options{Target: target, Host: "gpu01", Keep: true, Identity: []string{server.Key},
			KnownHosts: []string{hosts}, StateDir: filepath.Join(s.dir, "pushes")}
		plain := sshtest.Start(h, sshtest.Options{}) // scp asks for more than a node may
		scp := s.scp(plain, sshtest.NewProxy(h, plain.Addr), bundle)
		if err := s.kept(o, proxy, server, one(bundle), scp); err != nil {
			return err
		}
		if err := s.received(h, f.names[0], o, proxy, server, one(bundle)); err != nil {
			return err
		}
		return s.fresh(o, proxy, server, one(bundle), scp)
	})
}

// rewriteKnown writes known_hosts of a server as it is reached through a proxy.
func rewriteKnown(server *sshtest.Server, proxy *sshtest.Proxy, file string) error {
	known, err := os.ReadFile(server.KnownHosts)
	if err != nil {
		return err
	}
	return os.WriteFile(file,
		[]byte(strings.ReplaceAll(string(known), fmt.Sprintf("]:%d ", server.Port), fmt.Sprintf("]:%d ", proxy.Port))),
		0o600)
}

// A toll is what pushes cost a server and the line, each.
type toll struct {
	ms, turns, up, both float64 // up and both ways in KiB
}

// A batch is so many pushes that are counted together.
const batch = 20

// sessions counts a batch of pushes over connections of their own, of which the
// server knows what they cost when they have ended.
func sessions(server *sshtest.Server, proxy *sshtest.Proxy, push func() error) (toll, error) {
	proxy.Reset()
	_, before := reaped(server.PID())
	for range batch {
		if err := push(); err != nil {
			return toll{}, err
		}
	}
	for end := time.Now().Add(20 * time.Second); len(server.Sessions()) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	_, after := reaped(server.PID())
	up, down, round := proxy.Counted()
	return toll{float64((after - before).Microseconds()) / 1000 / batch, float64(round) / batch,
		float64(up) / batch / 1024, float64(up+down) / batch / 1024}, nil
}

// scp is what it costs to bring the same bytes by scp; nothing where it cannot.
func (s *suite) scp(server *sshtest.Server, proxy *sshtest.Proxy, bundle one) toll {
	file := filepath.Join(s.dir, "bundle")
	scp, err := exec.LookPath("scp")
	if err == nil {
		err = os.WriteFile(file, bundle, 0o644)
	}
	var best toll
	for n := 0; n < 3 && err == nil; n++ {
		var t toll
		t, err = sessions(server, proxy, func() error {
			args := append(sshOptions(server), "-P", fmt.Sprint(proxy.Port), file, server.User+"@127.0.0.1:")
			_, _, err := program(nil, scp, args...)
			return err
		})
		if n == 0 || t.ms < best.ms {
			best = t
		}
	}
	if err != nil {
		s.note("scp beside P1 and P2: %v", err)
		return toll{}
	}
	return best
}

func (s *suite) kept(o publisher.Options, proxy *sshtest.Proxy, server *sshtest.Server, bundle one, scp toll) error {
	p, err := publisher.New(o)
	if err != nil {
		return err
	}
	defer p.Close()
	for range 3 {
		if _, err := p.Publish(context.Background(), bundle); err != nil {
			return err
		}
	}
	const each = 50
	var ms, turns, up []float64
	for range s.times(8) {
		proxy.Reset()
		before := spent(server.Sessions()...)
		for range each {
			if _, err := p.Publish(context.Background(), bundle); err != nil {
				return err
			}
		}
		ms = append(ms, float64((spent(server.Sessions()...)-before).Microseconds())/1000/each)
		bytes, _, round := proxy.Counted()
		turns, up = append(turns, float64(round)/each), append(up, float64(bytes)/each/1024)
	}
	s.add(
		row{id: "P1", what: "a push of 8 GPUs over a kept connection, on the server", unit: "ms", values: ms,
			least: true, rivals: []rival{{"scp of the same bytes", scp.ms, 0.03}}})
	s.add(
		row{id: "P1", what: "its round trips", unit: "", values: turns, target: 6,
			besides: []beside{{"scp", scp.turns}}})
	s.add(row{id: "P1", what: "its bytes up", unit: "KiB", values: up, target: 4, besides: []beside{{"scp", scp.up}}})
	return nil
}

// received compares the built-in server with sshd, in turns: what a push costs each over a kept and over a fresh
// connection.
func (s *suite) received(
	h *harness, host string, o publisher.Options, proxy *sshtest.Proxy, server *sshtest.Server, bundle one,
) error {
	keys, state := h.TempDir(), h.TempDir()
	sshtest.WriteKey(h, filepath.Join(keys, host), "ed25519", "")
	cmd, port, err := s.startReceive(h, h.TempDir(), state, keys)
	if err != nil {
		return err
	}
	ours := o
	ours.Identity, ours.KnownHosts, ours.StateDir = []string{filepath.Join(keys, host)}, []string{filepath.Join(state,
		"known_hosts")}, filepath.Join(state, "pushes")
	if ours.Target, err = publisher.ParseTarget(
		fmt.Sprintf("sftp://%s@127.0.0.1:%d/", o.Target.User, port)); err != nil {
		return err
	}
	sides := []struct {
		o    publisher.Options
		pids func() []int
		ms   []float64
	}{{o: ours, pids: func() []int { return []int{cmd.Process.Pid} }}, {o: o, pids: server.Sessions}}
	const each = 50
	for range 1 + s.times(8) {
		for i := range sides {
			side := &sides[i]
			p, err := publisher.New(side.o)
			if err != nil {
				return err
			}
			var before time.Duration
			for n := range 3 + each {
				if n == 3 {
					before = spent(side.pids()...)
				}
				if _, err := p.Publish(context.Background(), bundle); err != nil {
					p.Close()
					return err
				}
			}
			side.ms = append(side.ms, float64((spent(side.pids()...)-before).Microseconds())/1000/each)
			p.Close()
		}
	}
	s.add(row{id: "P3", what: "the same push, gpuboard receive", unit: "ms", values: sides[0].ms, least: true,
		rivals:  []rival{{"sshd, in turns", slices.Min(sides[1].ms), 1}},
		besides: []beside{{"memory, MiB", float64(peak(cmd.Process.Pid)) / (1 << 20)}}})
	return s.receivedFresh(ours, o, cmd.Process.Pid, proxy, server, bundle)
}

// startReceive starts the built-in server until the measure ends, and writes known_hosts into its state directory.
func (s *suite) startReceive(h *harness, data, state, keys string) (*exec.Cmd, int, error) {
	port := sshtest.FreePort(h)
	cmd := exec.Command(s.program, "receive", "--data", data, "--state", state, "--keys", keys,
		"--listen", fmt.Sprintf("127.0.0.1:%d", port))
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, 0, err
	}
	h.background(cmd)
	lines := bufio.NewScanner(said)
	known := ""
	for known == "" && lines.Scan() { // echo 'NAMES KEY' >> …
		if words := strings.Split(lines.Text(), "'"); len(words) == 3 {
			known = words[1]
		}
	}
	go func() {
		for lines.Scan() { // what it says later is shown, and never fills the pipe
			say("    receive: %s", lines.Text())
		}
	}()
	return cmd, port, os.WriteFile(filepath.Join(state, "known_hosts"), []byte(known+"\n"), 0o600)
}

// receivedFresh is the same over fresh connections: ours are the options for the built-in server, whose process is
// pid, and o those for sshd.
func (s *suite) receivedFresh(
	ours, o publisher.Options, pid int, proxy *sshtest.Proxy, server *sshtest.Server, bundle one,
) error {
	ours.Keep, o.Keep = false, false
	receive, err := publisher.New(ours)
	if err != nil {
		return err
	}
	defer receive.Close()
	sshd, err := publisher.New(o)
	if err != nil {
		return err
	}
	defer sshd.Close()
	var ms, beside []float64
	for range s.times(8) {
		before := spent(pid)
		for range batch {
			if _, err := receive.Publish(context.Background(), bundle); err != nil {
				return err
			}
		}
		ms = append(ms, float64((spent(pid)-before).Microseconds())/1000/batch)
		t, err := sessions(server, proxy,
			func() error { _, err := sshd.Publish(context.Background(), bundle); return err })
		if err != nil {
			return err
		}
		beside = append(beside, t.ms)
	}
	s.add(
		row{id: "P3", what: "the same push over a fresh connection, gpuboard receive", unit: "ms", values: ms,
			least:  true,
			rivals: []rival{{"sshd, in turns", slices.Min(beside), 0.2}}})
	return nil
}

// fresh counts the sessions of the server after they have ended.
func (s *suite) fresh(o publisher.Options, proxy *sshtest.Proxy, server *sshtest.Server, bundle one, scp toll) error {
	o.Keep = false
	p, err := publisher.New(o)
	if err != nil {
		return err
	}
	defer p.Close()
	var ms, turns, kib []float64
	for range s.times(8) {
		t, err := sessions(server, proxy,
			func() error { _, err := p.Publish(context.Background(), bundle); return err })
		if err != nil {
			return err
		}
		ms, turns, kib = append(ms, t.ms), append(turns, t.turns), append(kib, t.both)
	}
	s.add(
		row{id: "P2", what: "a push over a fresh connection, on the server", unit: "ms", values: ms, least: true,
			rivals: []rival{{"scp of the same bytes", scp.ms, 0.7}}})
	s.add(row{id: "P2", what: "its round trips", values: turns, besides: []beside{{"scp", scp.turns}}})
	s.add(
		row{id: "P2", what: "its bytes both ways", unit: "KiB", values: kib, target: 8,
			besides: []beside{{"scp", scp.both}}})
	return nil
}
