package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/sshtest"
)

// sshdLimits are those of deploy/sshd/gpuboard.conf. The first is above OpenSSH's own 10:30:100.
const sshdLimits = "MaxStartups 100:30:1000\nMaxSessions 1\nLoginGraceTime 20\n" +
	"ClientAliveInterval 9\nClientAliveCountMax 2\n"

// A keptSide is one of the servers that are held side by side.
type keptSide struct {
	keptServer
	pids            func() []int
	before, cpu     time.Duration
	began, mib      float64
	processes, file int
}

// hour is what many nodes cost that keep their connections to sshd and to gpuboard receive for a long time, both at
// once, and whether each push that a server confirmed is in the drop.
func (s *suite) hour() error {
	return s.with(func(h *harness) error {
		all := keptNodes{For: s.lasts, Keys: h.TempDir(), State: filepath.Join(s.memory, "kept")}
		public := map[string]ssh.PublicKey{}
		for _, host := range demo.NewLarge(1, time.Now(), s.nodes).Hosts() {
			all.Hosts = append(all.Hosts, host.Name)
			public[host.Name] = sshtest.WriteKey(h, filepath.Join(all.Keys, host.Name), "ed25519", "")
		}
		sshd, err := s.sshdSide(h, public)
		if err != nil {
			return err
		}
		ours, err := s.receiveSide(h, all.Keys)
		if err != nil {
			return err
		}
		sides := []*keptSide{ours, sshd}
		for _, side := range sides {
			all.Servers = append(all.Servers, side.keptServer)
		}
		return s.keep(h, all, sides)
	})
}

// sshdSide starts sshd for nodes of which each has a drop and, by its key, a command of its own. Where root starts it,
// the nodes share an account without rights, whose sessions have the processes that an account for each would have.
func (s *suite) sshdSide(h *harness, public map[string]ssh.PublicKey) (*keptSide, error) {
	server := sshtest.Start(h, sshtest.Options{Config: sshdLimits})
	side := &keptSide{pids: func() []int { return append(server.Sessions(), server.PID()) }}
	account, err := user.Current()
	if os.Geteuid() == 0 {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return nil, err
	}
	// The account must reach its drops, and the file of the keys.
	for _, dir := range []string{s.dir, server.Root} {
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, err
		}
	}
	var keys strings.Builder
	for host, key := range public {
		drop := filepath.Join(server.Dir, host)
		if err := os.Mkdir(drop, 0o755); err != nil {
			return nil, err
		}
		if err := os.Chown(drop, uid, -1); err != nil {
			return nil, err
		}
		fmt.Fprintf(&keys, "restrict,command=\"%s -d %s\" %s", sshtest.LockedDown, drop, ssh.MarshalAuthorizedKey(key))
	}
	file := filepath.Join(server.Root, "authorized")
	if err := os.WriteFile(file, []byte(keys.String()), 0o644); err != nil {
		return nil, err
	}
	side.keptServer = keptServer{
		Name: "sshd", Target: fmt.Sprintf("sftp://%s@127.0.0.1:%d/", account.Username, server.Port),
		KnownHosts: server.KnownHosts, Drops: server.Dir,
	}
	return side, os.Chmod(file, 0o644)
}

// receiveSide starts gpuboard receive with its own limits.
func (s *suite) receiveSide(h *harness, keys string) (*keptSide, error) {
	data, state := h.TempDir(), h.TempDir()
	cmd, port, err := s.startReceive(h, data, state, keys)
	if err != nil {
		return nil, err
	}
	return &keptSide{
		keptServer: keptServer{Name: "gpuboard receive", Target: fmt.Sprintf("sftp://node@127.0.0.1:%d/", port),
			KnownHosts: filepath.Join(state, "known_hosts"), Drops: filepath.Join(data, "drop")},
		pids: func() []int { return []int{cmd.Process.Pid} },
	}, nil
}

// keep starts the nodes, looks at the servers until the end, and tells what it was.
func (s *suite) keep(h *harness, all keptNodes, sides []*keptSide) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	settings := filepath.Join(s.dir, "kept.json")
	if err := os.WriteFile(settings, raw, 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nodes := exec.Command(self, "-push-kept", settings)
	nodes.Stderr = os.Stderr
	if _, err := nodes.StdinPipe(); err != nil { // the nodes end with it
		return err
	}
	out, err := nodes.StdoutPipe()
	if err != nil {
		return err
	}
	h.background(nodes)

	answers := json.NewDecoder(out)
	var firsts, results []keptResult
	if err := answers.Decode(&firsts); err != nil {
		return fmt.Errorf("the nodes' process: %w", err)
	}
	for i, side := range sides {
		side.before, side.began = cpuOf(side.pids()), pssMiB(side.pids())
		s.note("Before the time of P3-hour began, %d nodes logged in to %s within %s: %d of their %d pushes "+
			"were confirmed, %d attempts were repeated.", len(all.Hosts), side.Name, spreadLogins(len(all.Hosts)),
			firsts[i].Confirmed, firsts[i].Pushes, firsts[i].Again)
	}
	ended := make(chan error, 1)
	go func() { ended <- answers.Decode(&results) }()
	look := time.NewTicker(max(all.For/12, 10*time.Second))
	defer look.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("the nodes' process: %w", err)
			}
			running = false
		case <-look.C:
			for _, side := range sides {
				say("    %s: %s has %.0f MiB in %d processes", time.Now().Format(time.TimeOnly), side.Name,
					pssMiB(side.pids()), len(side.pids()))
			}
		}
	}
	for _, side := range sides {
		pids := side.pids()
		side.cpu, side.mib, side.processes = cpuOf(pids)-side.before, pssMiB(pids), len(pids)
		side.file = openFiles(pids)
	}
	s.addKept(all, sides, results)
	return nil
}

// addKept adds the rows: what gpuboard receive took, and beside it sshd.
func (s *suite) addKept(all keptNodes, sides []*keptSide, results []keptResult) {
	lost := make([]int, len(sides))
	for i, side := range sides {
		behind := behindDrops(side.Drops, results[i].Last)
		lost[i] = len(behind) + len(all.Hosts) - len(results[i].Last)
		r := results[i]
		if lost[i] > 0 || len(r.Failed) > 0 {
			s.note("P3-hour, %s: not in the drop at the end: %s; not confirmed: %v; the last of them: %s",
				side.Name, strings.Join(behind, ", "), r.Failed, r.Example)
		}
	}
	what := fmt.Sprintf("%d nodes that push every %s over kept connections, for %s", len(all.Hosts), every, all.For)
	s.add(row{id: "P3-hour", what: what, values: []float64{float64(len(all.Hosts))}})
	add := func(what, unit string, of func(i int) float64) {
		s.add(row{id: "P3-hour", what: what, unit: unit, values: []float64{of(0)},
			besides: []beside{{sides[1].Name, of(1)}}})
	}
	add("memory of "+sides[0].Name+" at the end (PSS)", "MiB", func(i int) float64 { return sides[i].mib })
	add("the same at the beginning", "MiB", func(i int) float64 { return sides[i].began })
	add("its processes", "", func(i int) float64 { return float64(sides[i].processes) })
	add("its open files, sockets among them", "", func(i int) float64 { return float64(sides[i].file) })
	add("its processor time", "s", func(i int) float64 { return sides[i].cpu.Seconds() })
	add("of that, for each push", "ms", func(i int) float64 {
		return sides[i].cpu.Seconds() * 1000 / float64(max(1, results[i].Confirmed))
	})
	add("pushes that were made", "", func(i int) float64 { return float64(results[i].Pushes) })
	add("pushes that it confirmed", "", func(i int) float64 { return float64(results[i].Confirmed) })
	add("of them not in the drop right after", "", func(i int) float64 { return float64(results[i].Missing) })
	add("hosts without their last confirmed push in the drop", "", func(i int) float64 { return float64(lost[i]) })
	add("connections that nodes made anew", "", func(i int) float64 { return float64(results[i].Dialed) })
	add("a push on the node by the clock, median", "ms", func(i int) float64 { return results[i].Median })
	add("a push on the node by the clock, 99 of 100 at most", "ms", func(i int) float64 { return results[i].Most99 })
	add("the longest", "ms", func(i int) float64 { return results[i].Ms })
	s.note("P3-hour: sshd had, as deploy/sshd has it, %s; no account's chroot. A process may open %d files here.",
		strings.ReplaceAll(strings.TrimSpace(sshdLimits), "\n", ", "), fileLimit())
}

// behindDrops are the hosts whose drop does not hold the snapshot with this number or a later one.
func behindDrops(drops string, last map[string]uint64) []string {
	var behind []string
	for _, host := range slices.Sorted(maps.Keys(last)) {
		f, err := os.Open(filepath.Join(drops, host, spool.LatestName))
		if err == nil {
			var b *snapshot.Bundle
			b, err = snapshot.DecodeBundle(f)
			f.Close()
			if err == nil && b.Host == host && b.Snapshot.Seq >= last[host] {
				continue
			}
			if err == nil {
				err = fmt.Errorf("it has %d of %s", b.Snapshot.Seq, b.Host)
			}
		}
		behind = append(behind, fmt.Sprintf("%s, confirmed %d: %v", host, last[host], err))
	}
	return behind
}

// cpuOf is the processor time of processes and of their children that have ended.
func cpuOf(pids []int) time.Duration {
	sum := spent(pids...)
	for _, pid := range pids {
		_, children := reaped(pid)
		sum += children
	}
	return sum
}
