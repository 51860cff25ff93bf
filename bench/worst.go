package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

// worst is what one node, or one file of bookings, can add to a generation of
// 100 hosts, each by one process, in turns with one that nothing was added to.
// Everybody has news in each.
func (s *suite) worst() error {
	usual, err := newFleet(filepath.Join(s.dir, "usual"), s.memory, 100, true)
	if err != nil {
		return err
	}
	defer os.RemoveAll(usual.dir)
	f, err := newFleet(filepath.Join(s.dir, "worst"), s.memory, 100, true)
	if err != nil {
		return err
	}
	defer os.RemoveAll(f.dir)
	comments := f.path("data", "comments.json")
	few, err := os.ReadFile(comments)
	if err != nil {
		return err
	}
	many, err := bookings(few, f.names[0], 20_000)
	if err != nil {
		return err
	}
	for range first(len(f.names)) {
		for _, f := range []*fleet{usual, f} {
			if _, err := s.news(f); err != nil {
				return err
			}
		}
	}
	var all []float64
	for _, c := range []struct {
		what  string
		spoil func(*snapshot.Snapshot)
		text  []byte
	}{
		{"20,000 bookings by as many people on one host", nil, many},
		{"4,096 users on one GPU of one host", crowd, few},
		{"one host with of everything as much as it may send", everything, few},
	} {
		f.spoil = c.spoil
		if err := os.WriteFile(comments, c.text, 0o644); err != nil {
			return err
		}
		var without, ms []float64
		var mib float64
		for n := range 2 + s.times(5) {
			beside, err := s.news(usual)
			if err != nil {
				return err
			}
			u, err := s.news(f)
			if err != nil {
				return err
			}
			if n >= 2 { // the first ones write what is new of it
				without, ms, mib = append(without, beside.ms()), append(ms, u.ms()), max(mib, float64(u.peak)/(1<<20))
			}
		}
		say("    %s: %.0f ms, %.0f MiB", c.what, slices.Min(ms), mib)
		all = append(all, without...)
		for i := range ms {
			ms[i] /= slices.Min(without)
		}
		s.add(
			row{id: "G6",
				what: fmt.Sprintf("a generation of 100 hosts by one process, with %s (%.0f MiB)", c.what, mib),
				unit: "times", values: ms, target: 2, least: true})
	}
	s.add(row{id: "G6", what: "the same with usual drops, in turns with each", unit: "ms", values: all, least: true})
	return nil
}

// news is a generation in which every host has news, as cron starts it.
func (s *suite) news(f *fleet) (use, error) {
	f.at = time.Now().UTC().Add(-every)
	if err := f.push(f.names); err != nil {
		return use{}, err
	}
	return s.cron(f)
}

// crowd gives all processes that a host may have to one GPU, each to another user.
func crowd(s *snapshot.Snapshot) {
	s.Processes = nil
	for i := range snapshot.MaxProcesses {
		s.Processes = append(s.Processes,
			snapshot.Process{PID: 1000 + i, Type: snapshot.Compute, User: fmt.Sprintf("user%04d", i),
				Program:    "train.py",
				UsedMemory: new(int64(10)), Alive: new(true),
				StartedAt: &snapshot.Time{Time: s.CollectedAt.Add(-time.Hour)}})
	}
}

// everything is a host with of everything as much as it may have, short enough
// for all of it to fit into what a drop may hold.
func everything(s *snapshot.Snapshot) {
	long := func(n, size int) string { return fmt.Sprintf("%0*d", size, n) }
	crowd(s)
	gpu := s.GPUs[0]
	s.GPUs = nil
	for i := range snapshot.MaxGPUs {
		g := gpu
		g.Index, g.UUID, g.Name = i, "GPU-"+s.Host+long(i, 50), long(i, 64)
		g.Health, g.HealthReason = snapshot.HealthError, long(i, snapshot.MaxTextBytes)
		g.MIGDevices = nil
		for j := range snapshot.MaxMIGDevices {
			g.MIGDevices = append(g.MIGDevices,
				snapshot.MIGDevice{Index: j, UUID: "MIG-" + s.Host + long(i*100+j, 50), Profile: "1g.10gb",
					MemoryTotal: new(int64(10000)), MemoryUsed: new(int64(1))})
		}
		s.GPUs = append(s.GPUs, g)
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		p.GPU, p.User, p.Program, p.Alive = i%snapshot.MaxGPUs, long(i, 32), long(i,
			snapshot.MaxProgramBytes), new(false)
		for j := range 2 {
			p.Children = append(p.Children, snapshot.Child{PID: j + 2, User: long(j, 32), Program: long(j, 32)})
		}
	}
	for i := range snapshot.MaxErrors {
		s.Errors = append(s.Errors,
			snapshot.Problem{Code: fmt.Sprintf("smi:e%d", i), Message: long(i, snapshot.MaxTextBytes)})
	}
	for i := range snapshot.MaxDisks {
		s.Node.Disks = append(s.Node.Disks, snapshot.Disk{Mount: long(i, snapshot.MaxNameBytes), Total: 100, Used: 99})
	}
	for i := range snapshot.MaxDiskUsers {
		s.Node.DiskUsers = append(s.Node.DiskUsers,
			snapshot.DiskUser{Path: long(i, snapshot.MaxNameBytes), User: long(i, snapshot.MaxNameBytes), Used: 1})
	}
	for i := range snapshot.MaxInterfaces {
		s.Node.Interfaces = append(s.Node.Interfaces,
			snapshot.Interface{Name: long(i, snapshot.MaxProgramBytes), Addrs: []string{"192.0.2.1"}})
	}
}

// bookings gives the GPUs of a host so many bookings with times and comments of their own, as
// people and commands write them: what is equal in all is cheaper to read and to compress.
func bookings(file []byte, host string, n int) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(file, &all); err != nil {
		return nil, err
	}
	begin := time.Now().UTC()
	gpus := map[string][]any{}
	for i := range n {
		from := begin.Add(time.Duration(i) * 17 * time.Minute)
		gpu := fmt.Sprint(i % 8)
		gpus[gpu] = append(gpus[gpu],
			map[string]string{"name": fmt.Sprintf("name%05d", i), "comment": fmt.Sprintf("training run %d", i),
				"from": from.Format("2006-01-02 15:04"), "date": from.Add(4 * time.Hour).Format("2006-01-02 15:04")})
	}
	all[host] = gpus
	return json.MarshalIndent(all, "", "  ")
}
