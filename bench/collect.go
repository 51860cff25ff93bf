package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/testenv/sshtest"
)

// fakeSMI is an nvidia-smi that answers at once: 8 GPUs with two processes
// each. Each start leaves a line in its log, so that cycles can be counted.
func (s *suite) fakeSMI() (path, log string, err error) {
	idle, err := os.ReadFile("collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		return "", "", err
	}
	// Each element on a line of its own, as nvidia-smi writes it.
	process := fmt.Sprintf(`<process_info>
<gpu_instance_id>N/A</gpu_instance_id>
<compute_instance_id>N/A</compute_instance_id>
<pid>%d</pid>
<type>C</type>
<process_name>python</process_name>
<used_memory>9000 MiB</used_memory>
</process_info>
`, os.Getpid())
	busy := strings.ReplaceAll(string(idle), "</processes>",
		process+strings.ReplaceAll(process, fmt.Sprint(os.Getpid()), "1")+"</processes>")
	if strings.Count(busy, "<pid>") != 16 {
		return "", "", fmt.Errorf("the capture has no 8 lists of processes")
	}
	xml := filepath.Join(s.dir, "busy.xml")
	if err := os.WriteFile(xml, []byte(busy), 0o644); err != nil {
		return "", "", err
	}
	path, log = filepath.Join(s.dir, "nvidia-smi"), filepath.Join(s.dir, "nvidia-smi.log")
	script := fmt.Sprintf("#!/bin/sh\necho started >>%s\nexec cat %s\n", log, xml)
	return path, log, os.WriteFile(path, []byte(script), 0o755)
}

// psAlone is what ps costs as the collector calls it: for the processes on
// GPUs, and for all.
func psAlone() (few, all float64, err error) {
	if few, err = leastProgram(9, "ps", ps.ArgsOf([]int{1, os.Getpid()})...); err == nil {
		all, err = leastProgram(9, "ps", ps.Args()...)
	}
	return few, all, err
}

// oneShot is what cron would start: collect, publish over a fresh connection,
// and what people type.
func (s *suite) oneShot() error {
	smi, _, err := s.fakeSMI()
	if err != nil {
		return err
	}
	smiAlone, err := leastProgram(9, smi)
	if err != nil {
		return err
	}
	few, all, err := psAlone()
	if err != nil {
		return err
	}
	version, err := leastProgram(9, s.program, "version")
	if err != nil {
		return err
	}
	others := []beside{{"the fake nvidia-smi alone", smiAlone}, {"ps alone, of the processes on GPUs", few},
		{"ps alone, of all", all}, {"starting gpuboard (version)", version}}
	spool := filepath.Join(s.dir, "spool")
	collect := []string{"collect", "--nvidia-smi", smi, "--spool", spool, "--host", "gpu01"}
	var list, mib []float64
	for range s.times(20) {
		u, _, err := program(nil, s.program, "list", "--nvidia-smi", smi, "--comments",
			filepath.Join(s.dir, "none.json"))
		if err != nil {
			return err
		}
		list = append(list, max(0, u.ms()-smiAlone))
	}
	rivals := []rival{{"starting gpuboard (version)", version, 1.6}}
	if gpustat, found := s.peer("gpustat", "gpuboard list"); found {
		if cost, err := leastProgram(5, gpustat, "--json"); err != nil {
			s.note("gpustat beside L1: %v", err)
		} else {
			rivals = append(rivals, rival{"gpustat --json", cost, 0.17})
		}
	}
	s.add(
		row{id: "L1", what: "gpuboard list beyond nvidia-smi, ps included", unit: "ms", values: list, least: true,
			rivals: rivals, besides: others[1:3]})
	return s.with(func(h *harness) error {
		server := sshtest.Start(h, sshtest.Options{Command: sshtest.LockedDown})
		to := fmt.Sprintf("sftp://%s@%s/", server.User, server.Addr)
		once := append(
			[]string{"run", "--once", "--to", to, "--identity", server.Key, "--known-hosts", server.KnownHosts},
			collect[1:]...)
		publish := []string{"publish", "--spool", spool, "--host", "gpu01", "--to", to,
			"--identity", server.Key, "--known-hosts", server.KnownHosts}
		minimal, err := s.probe(server, smi)
		if err != nil {
			return err
		}
		var both, single, probed, small []float64
		for range s.times(20) {
			a, _, err := program([]int{3}, s.program, collect...)
			if err != nil {
				return err
			}
			b, _, err := program(nil, s.program, publish...)
			if err != nil {
				return err
			}
			c, _, err := program([]int{3}, s.program, once...)
			if err != nil {
				return err
			}
			d, _, err := program(nil, minimal[0], minimal[1:]...)
			if err != nil {
				return err
			}
			single, probed = append(single, c.ms()), append(probed, d.ms())
			both, mib, small = append(both, a.ms()+b.ms()), append(mib,
				float64(max(a.peak, b.peak))/(1<<20)), append(small, float64(d.peak)/(1<<20))
		}
		others, counts := s.copied(h, server, smi, others)
		probe := "a minimal Go program, the same work and nothing else"
		s.add(
			row{id: "C1", what: "gpuboard run --once: collect and publish, fresh connection, all children", unit: "ms",
				values: single, least: true,
				rivals: []rival{{probe, slices.Min(probed), 1.7}}, besides: others})
		s.add(
			row{id: "C1", what: "gpuboard collect and gpuboard publish, likewise", unit: "ms", values: both,
				least: true})
		s.add(
			row{id: "C1", what: "memory of either", unit: "MiB", values: mib, target: 16, least: true,
				rivals: []rival{{probe, slices.Min(small), 0}}})
		n, err := s.programs([]int{3}, append([]string{s.program}, once...))
		if err != nil {
			s.note("programs started are not counted: %v", err)
			return nil
		}
		s.add(
			row{id: "C1", what: "programs started by run --once, itself among them", values: []float64{n}, target: 4,
				besides: counts})
		return nil
	})
}

// copied adds what scp costs, and a script with it; and how many programs that starts.
func (s *suite) copied(h *harness, server *sshtest.Server, smi string, others []beside) (costs, programs []beside) {
	scp, err := exec.LookPath("scp")
	if err != nil {
		s.note("scp is not installed: pushes are not compared with it.")
		return others, nil
	}
	cost, err := leastProgram(5, scp,
		append(sshOptions(server), "-P", fmt.Sprint(server.Port), smi, server.User+"@127.0.0.1:x")...)
	if err != nil {
		s.note("scp to the same server: %v", err)
	} else {
		others = append(others, beside{"scp of one file, client alone", cost})
	}
	plain := sshtest.Start(h, sshtest.Options{}) // scp of several files asks for more than a node may
	command, err := s.scripted(plain, smi)
	if err == nil {
		cost, err = leastProgram(5, command[0], command[1:]...)
	}
	if err != nil {
		s.note("a script beside C1: %v", err)
		return others, nil
	}
	others = append(others, beside{"a shell script with scp of six files", cost})
	if n, err := s.programs(nil, command); err == nil {
		programs = []beside{{"the script", n}}
	}
	return others, programs
}

func sshOptions(server *sshtest.Server) []string {
	return []string{"-q", "-i", server.Key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-F", "none"}
}

// loop is gpuboard run with its connection kept, without and with many more
// processes on the node.
func (s *suite) loop() error {
	return s.with(func(h *harness) error {
		server := sshtest.Start(h, sshtest.Options{Command: sshtest.LockedDown})
		smi, log, err := s.fakeSMI()
		if err != nil {
			return err
		}
		smiAlone, err := leastProgram(9, smi)
		if err != nil {
			return err
		}
		one, all, err := psAlone()
		if err != nil {
			return err
		}
		keeps := func() *exec.Cmd {
			return exec.Command(s.program, "run", "--every", "2s", "--host", "gpu01", "--nvidia-smi", smi, "--spool",
				filepath.Join(s.dir, "spool-loop"),
				"--to", fmt.Sprintf("sftp://%s@%s/", server.User, server.Addr), "--identity", server.Key,
				"--known-hosts", server.KnownHosts)
		}
		few, err := s.runs(keeps(), log)
		if err != nil {
			return err
		}
		minimal, err := s.probe(server, smi, "-every", "2s")
		if err != nil {
			return err
		}
		probed, err := s.runs(exec.Command(minimal[0], minimal[1:]...), log)
		if err != nil {
			return err
		}
		plain := sshtest.Start(h, sshtest.Options{})
		besides := []beside{{"the fake nvidia-smi alone", smiAlone}, {"ps alone, of the processes on GPUs", one},
			{"ps alone, of all", all}}
		if cost, err := s.keptSCP(h, plain, smi); err != nil {
			s.note("scp beside C2: %v", err)
		} else {
			besides = append(besides, beside{"scp of one file over a kept connection, client alone", cost})
		}
		scripted := func() float64 {
			command, err := s.scripted(plain, smi)
			if err != nil {
				return 0
			}
			cost, err := leastProgram(5, command[0], command[1:]...)
			if err != nil {
				s.note("a script beside C3: %v", err)
			}
			return cost
		}
		before := scripted()
		s.add(
			row{id: "C2", what: "one cycle of gpuboard run, connection kept, its children included", unit: "ms",
				values: []float64{few.ms},
				rivals: []rival{{"a minimal Go program that keeps its connection, in place of an exporter", probed.ms,
					1.3}},
				besides: besides})
		s.add(
			row{id: "C2", what: "what of it is its own, without children", unit: "ms", values: []float64{few.self},
				besides: []beside{{"the minimal Go program's", probed.self}}})
		s.add(
			row{id: "C2", what: "its resident memory, with what it has read of its own file", unit: "MiB",
				values: []float64{few.mib}, target: 16, besides: []beside{{"the minimal Go program's", probed.mib}}})
		s.add(
			row{id: "C2", what: "what of that no file backs", unit: "MiB", values: []float64{few.own},
				besides: []beside{{"the minimal Go program's", probed.own}}})
		for range 1000 {
			sleeper := exec.Command("sleep", "600")
			if err := sleeper.Start(); err != nil {
				return err
			}
			h.Cleanup(func() {
				_ = sleeper.Process.Kill()
				_ = sleeper.Wait()
			})
		}
		one, all, err = psAlone()
		if err != nil {
			return err
		}
		many, err := s.runs(keeps(), log)
		if err != nil {
			return err
		}
		s.add(
			row{id: "C3", what: "what 1,000 more processes add to a cycle, ps included", unit: "ms more",
				values: []float64{max(0, many.ms-few.ms)},
				rivals: []rival{{"a shell script with scp, likewise", max(0, scripted()-before), 0.02}},
				besides: []beside{{"ps alone, of all, with them", all},
					{"ps alone, of the processes on GPUs, with them", one}, {"a cycle, with them", many.ms}}})
		return nil
	})
}

// A looped is what a loop costs a node: processor time of a cycle in ms, of
// that its own without its children, memory in MiB, and how much of it no file backs.
type looped struct{ ms, self, mib, own float64 }

// runs lets a loop go on for a while.
func (s *suite) runs(cmd *exec.Cmd, log string) (looped, error) {
	cycles := s.times(16)
	if err := cmd.Start(); err != nil {
		return looped{}, err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	pid := cmd.Process.Pid
	at := func(start int) (self, children time.Duration, n int, err error) {
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if n := started(log); n >= start {
				_, children := reaped(pid)
				return spent(pid), children, n, nil
			}
		}
		return 0, 0, 0, fmt.Errorf("%s does not collect", filepath.Base(cmd.Path))
	}
	self, children, first, err := at(started(log) + 3) // the connection stands
	if err != nil {
		return looped{}, err
	}
	selfThen, childrenThen, last, err := at(first + cycles)
	if err != nil {
		return looped{}, err
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(last-first) }
	mine := each(selfThen - self)
	return looped{mine + each(childrenThen-children), mine, float64(peak(pid)) / (1 << 20),
		float64(inStatus(pid, "RssAnon:")) / (1 << 20)}, nil
}

// started counts the starts of the fake nvidia-smi.
func started(log string) int {
	data, err := os.ReadFile(log)
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}
