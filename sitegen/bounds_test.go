package sitegen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

// crowd is a snapshot of one GPU with n processes, each of another user.
func crowd(n int) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(boardtest.Now.Add(-time.Second)),
		IntervalSeconds: 20, GPUsComplete: true,
		GPUs: []snapshot.GPU{{
			UUID: "GPU-1", Name: "NVIDIA A100", Health: snapshot.HealthOK, MemoryTotal: new(int64(81920)),
			MemoryUsed: new(int64(80000)), Readings: snapshot.Readings{UtilizationGPU: new(99)},
		}}}
	for i := range n {
		s.Processes = append(s.Processes, snapshot.Process{PID: 1000 + i, Type: snapshot.Compute,
			User: fmt.Sprintf("user%04d", i), Program: "train.py",
			UsedMemory: new(int64(80000 / n)), Alive: new(true),
			StartedAt: &snapshot.Time{Time: boardtest.Now.Add(-time.Hour)}})
	}
	return s
}

// everything is a snapshot that has of everything as much as it may.
func everything() *snapshot.Snapshot {
	s := crowd(snapshot.MaxProcesses)
	long := func(n, size int) string { return fmt.Sprintf("%0*d", size, n) }
	gpu := s.GPUs[0]
	s.GPUs = nil
	for i := range snapshot.MaxGPUs {
		g := gpu
		g.Index, g.UUID, g.Name = i, long(i, snapshot.MaxNameBytes), long(i, snapshot.MaxNameBytes)
		g.Health, g.HealthReason = snapshot.HealthError, long(i, snapshot.MaxTextBytes)
		for j := range snapshot.MaxMIGDevices {
			g.MIGDevices = append(g.MIGDevices, snapshot.MIGDevice{
				Index: j, UUID: long(i*100+j, snapshot.MaxNameBytes), Profile: "1g.10gb",
				MemoryTotal: new(int64(10000)),
				MemoryUsed:  new(int64(1)),
			})
		}
		s.GPUs = append(s.GPUs, g)
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		p.GPU, p.User, p.Program, p.Alive = i%snapshot.MaxGPUs, long(i, snapshot.MaxNameBytes),
			long(i, snapshot.MaxProgramBytes), new(false)
		for j := range snapshot.MaxChildren {
			p.Children = append(p.Children, snapshot.Child{
				PID: j, User: long(j, snapshot.MaxNameBytes), Program: long(j, snapshot.MaxProgramBytes),
			})
		}
	}
	for i := range snapshot.MaxErrors {
		s.Errors = append(s.Errors, snapshot.Problem{
			Code: fmt.Sprintf("smi:e%d", i), Message: long(i, snapshot.MaxTextBytes),
		})
	}
	for i := range snapshot.MaxDisks {
		s.Node.Disks = append(s.Node.Disks, snapshot.Disk{Mount: long(i, snapshot.MaxNameBytes), Total: 100, Used: 99})
	}
	for i := range snapshot.MaxDiskUsers {
		s.Node.DiskUsers = append(s.Node.DiskUsers, snapshot.DiskUser{
			Path: long(i, snapshot.MaxNameBytes), User: long(i, snapshot.MaxNameBytes), Used: 1,
		})
	}
	for i := range snapshot.MaxInterfaces {
		s.Node.Interfaces = append(s.Node.Interfaces, snapshot.Interface{
			Name:  long(i, snapshot.MaxProgramBytes),
			Addrs: slices.Repeat([]string{long(i, snapshot.MaxProgramBytes)}, snapshot.MaxAddrs),
		})
	}
	return s
}

// boardOf is the board of one host.
func boardOf(s *snapshot.Snapshot) render.Input {
	b, _ := board.Merge(board.Input{
		Now: boardtest.Now, Hosts: []inventory.Host{{Name: "gpu01"}},
		Reports: map[string]board.Report{"gpu01": {Snapshot: s}},
	})
	return render.Input{Board: b, Site: render.Site{Zone: time.UTC}}
}

// sizeOfSite is how many files a board makes, and their bytes.
func sizeOfSite(t *testing.T, in render.Input) (files, bytes int) {
	t.Helper()
	list, err := boardtest.Files(in, func(in render.Input) error {
		return errors.Join(page.Files(in, nil), data.Files(in), text.Files(in))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		bytes += len(f.Content)
	}
	return len(list), bytes
}

// What one node can make a generation write grows no faster than what the node
// sends, and how many files there are has a bound.
func TestOneNodeIsBounded(t *testing.T) {
	sizes := map[int]int{}
	for _, n := range []int{1, 1024, 2048, snapshot.MaxProcesses} {
		files, bytes := sizeOfSite(t, boardOf(crowd(n)))
		sizes[n] = bytes
		t.Logf("%d users: %d files, %d KiB", n, files, bytes>>10)
		if files > 600 {
			t.Errorf("%d users make %d files", n, files)
		}
	}
	if first, second := sizes[2048]-sizes[1024], sizes[snapshot.MaxProcesses]-sizes[2048]; second > 5*first/2 {
		t.Errorf("1,024 users more are %d bytes, and then 2,048 more are %d", first, second)
	}
	most := everything()
	sent, err := json.Marshal(most)
	if err != nil {
		t.Fatal(err)
	}
	files, bytes := sizeOfSite(t, boardOf(most))
	t.Logf("everything: %d KiB sent, %d files, %d KiB", len(sent)>>10, files, bytes>>10)
	if _, without := sizeOfSite(t, boardOf(crowd(1))); files > 600 || bytes-without > 6*len(sent) {
		t.Errorf("%d bytes of a node make %d files with %d bytes", len(sent), files, bytes)
	}
}

// As many bookings as one likes, by as many people, make files and rows of a
// bounded number: all of them are in the calendar and in board.json alone.
func TestManyBookingsAreBounded(t *testing.T) {
	made := func(n int) (files, bytes int) {
		cal := &booking.Calendar{File: "comments.json"}
		for i := range n {
			cal.Bookings = append(cal.Bookings, booking.Booking{
				ID: fmt.Sprint(i), Host: "gpu01", Name: fmt.Sprintf("name%05d", i),
				Until:  boardtest.Now.Add(48 * time.Hour),
				Target: booking.Target{All: true, Index: -1},
			})
		}
		s := crowd(1)
		for i := range 8 {
			g := s.GPUs[0]
			g.Index, g.UUID = i, fmt.Sprint("GPU-", i)
			s.GPUs = append(s.GPUs[:i:i], g)
		}
		b, _ := board.Merge(board.Input{
			Now: boardtest.Now, Hosts: []inventory.Host{{Name: "gpu01"}},
			Reports: map[string]board.Report{"gpu01": {Snapshot: s}}, Calendar: cal,
		})
		return sizeOfSite(t, render.Input{Board: b, Site: render.Site{Zone: time.UTC}})
	}
	_, few := made(1000)
	files, many := made(5000)
	t.Logf("%d files, %d and %d KiB", files, few>>10, many>>10)
	if files > 1200 {
		t.Errorf("5,000 bookings make %d files", files)
	}
	if each := (many - few) / 4000; each > 2048 {
		t.Errorf("each booking beyond the first 1,000 is %d bytes", each)
	}
}

// People who have booked have a page up to a number for the whole fleet, however many hosts it has.
func TestPeopleOfManyBookingsAreBounded(t *testing.T) {
	b := &board.Board{}
	for i := range 20_000 {
		b.Bookings = append(b.Bookings, board.Booking{Host: fmt.Sprint("gpu", i%100), Name: fmt.Sprint("name", i)})
	}
	if n := len(render.People(b)); n != 1024 {
		t.Errorf("%d people have a page", n)
	}
}

// Sizes are rounded up, and the largest ones stay positive.
func TestMebibytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 MiB", 1: "1 MiB", 1 << 20: "1 MiB", 1<<20 + 1: "2 MiB", math.MaxInt64: "8796093022208 MiB",
	} {
		if got := mebibytes(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}

// TestReplayOfAnotherBoot: what an earlier boot has sent is a replay, also where its clock was
// ahead of the one that is shown. Only a number that is new counts as news of it.
func TestReplayOfAnotherBoot(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC)
	type pushed struct {
		boot   string
		seq    uint64
		at     time.Duration // by the node's clock
		replay bool
	}
	for _, test := range []struct {
		name   string
		pushes []pushed
	}{
		{"an earlier boot, later by its clock", []pushed{
			{"first", 12, 0, false}, {"second", 1, -time.Hour, true}, {"second", 2, -time.Hour, false},
			{"first", 12, 0, true}, {"first", 11, time.Minute, true}, {"first", 12, time.Minute, true},
			{"second", 3, -time.Hour, false}}},
		{"an earlier boot with a new number is back", []pushed{
			{"first", 12, 0, false}, {"second", 1, -time.Hour, true}, {"second", 2, -time.Hour, false},
			{"first", 13, time.Second, false}}},
		{"a boot that was never seen, and is earlier", []pushed{
			{"second", 12, 0, false}, {"first", 40, -time.Hour, true}, {"first", 40, -time.Hour, true},
			{"first", 39, -time.Hour, true}}},
		{"a boot that was never seen, and is later", []pushed{
			{"second", 12, 0, false}, {"third", 1, time.Second, false}, {"second", 12, 0, true},
		}},
		{"the same boot", []pushed{
			{"first", 12, 0, false}, {"first", 12, 0, false}, {"first", 11, time.Hour, true},
			{"first", 13, -time.Hour, false},
		}},
	} {
		mem := &memory{Senders: map[string][]sender{}}
		for i, p := range test.pushes {
			s := &snapshot.Snapshot{BootID: p.boot, Seq: p.seq, CollectedAt: snapshot.TimeOf(now.Add(p.at))}
			at := now.Add(time.Duration(i) * time.Second)
			problem := mem.accept("gpu01", &snapshot.Bundle{BootID: p.boot, Snapshot: s}, at, at.Add(5*time.Minute))
			if (problem != nil) != p.replay || problem != nil && problem.Code != "host:replayed" {
				t.Errorf("%s: push %d: %+v, want a replay: %v", test.name, i, problem, p.replay)
			}
		}
	}
}

// TestSendersAreRemembered: for a day after another one took their place, a few of a host, with their GPUs.
func TestSendersAreRemembered(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC)
	mem := &memory{Senders: map[string][]sender{"gpu01": {
		{Boot: "shown", Seq: 1, Seen: now.Add(-2 * sendersFor)}, {Boot: "old", Seen: now.Add(-sendersFor)},
		{Boot: "older", Seen: now.Add(-sendersFor - 1)}}}}
	send := func(boot string, seq uint64, after time.Duration, gpus ...string) *snapshot.Problem {
		s := &snapshot.Snapshot{BootID: boot, Seq: seq, CollectedAt: snapshot.TimeOf(now.Add(after))}
		for _, uuid := range gpus {
			s.GPUs = append(s.GPUs, snapshot.GPU{UUID: uuid})
		}
		return mem.accept("gpu01", &snapshot.Bundle{BootID: boot, Snapshot: s}, now.Add(after), now.Add(time.Hour))
	}
	if p := send("shown", 2, 0); p != nil || len(mem.Senders["gpu01"]) != 2 || mem.Senders["gpu01"][1].Boot != "old" {
		t.Errorf("%+v, remembered are %+v", p, mem.Senders["gpu01"])
	}
	last := uint64(now.Unix())
	if p := send("shown", last+1, 0); p == nil || p.Code != snapshot.BadParse {
		t.Errorf("a number for the next second: %+v", p)
	}
	if p := send("shown", last, 0, "GPU-1"); p != nil {
		t.Errorf("as many numbers as seconds: %+v", p)
	}
	// The driver does not answer, and then another container has another GPU.
	if p := send("shown", last+1, time.Second); p != nil {
		t.Errorf("without GPUs: %+v", p)
	}
	if p := send("shown", 1, 2*time.Second, "GPU-2"); p != nil {
		t.Errorf("another machine of the same boot: %+v", p)
	}
	for i := range 2 * maxSenders {
		if p := send(fmt.Sprint("boot", i), 1, time.Duration(3+i)*time.Second); p != nil {
			t.Errorf("boot %d: %+v", i, p)
		}
	}
	if n := len(mem.Senders["gpu01"]); n != maxSenders {
		t.Errorf("%d senders are remembered", n)
	}
	// The one that is shown is remembered, however long it has been silent.
	mem.Senders["gpu01"] = []sender{{Boot: "shown", Seq: 1, Collected: now, Seen: now.Add(-2 * sendersFor)}}
	if p := send("before", 1, -time.Hour); p == nil || len(mem.Senders["gpu01"]) != 2 ||
		mem.Senders["gpu01"][0].Boot != "shown" {
		t.Errorf("an older snapshot of another machine: %+v, remembered are %+v", p, mem.Senders["gpu01"])
	}
}

// TestNumbersAreReachable: a collector gives one number a second, since its node booted.
func TestNumbersAreReachable(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC)
	const far = 1_700_000_000
	for _, test := range []struct {
		name   string
		uptime *int64
		known  sender
		seq    uint64
		ok     bool
	}{
		{"the first of a boot", new(int64(30)), sender{}, 1, true},
		{"a spool that was lost", new(int64(100)), sender{}, 100, true},
		{"numbers by hand, shortly after", new(int64(100)), sender{}, 150, true},
		{"far ahead of the uptime", new(int64(100)), sender{}, far, false},
		{"far ahead of the uptime, and of what is known", new(int64(100)),
			sender{Boot: "b", Seq: 99, Seen: now.Add(-time.Second)}, far, false},
		{"far ahead of the uptime, of a boot that is not known", new(int64(100)),
			sender{Boot: "a", Seq: far, Seen: now.Add(-time.Second)}, far + 1, false},
		{"a container with an uptime of its own, and a spool that it has kept", new(int64(5)),
			sender{Boot: "b", Seq: 50_000, Seen: now.Add(-time.Hour)}, 50_180, true},
		{"an uptime that cannot be", new(int64(1 << 40)), sender{}, uint64(now.Unix()) + 1, false},
		{"an uptime that is not known", nil, sender{}, far, true},
		{"an uptime that is not known, and more than a number a second", nil, sender{}, uint64(now.Unix()) + 1, false},
	} {
		mem := &memory{Senders: map[string][]sender{"gpu01": {test.known}}}
		s := &snapshot.Snapshot{
			BootID: "b", Seq: test.seq, CollectedAt: snapshot.TimeOf(now),
			Node: snapshot.Node{UptimeSeconds: test.uptime},
		}
		problem := mem.accept("gpu01", &snapshot.Bundle{BootID: "b", Snapshot: s}, now, now.Add(time.Hour))
		if (problem == nil) != test.ok || problem != nil && problem.Code != snapshot.BadParse {
			t.Errorf("%s: %+v", test.name, problem)
		}
	}
}

// TestSaltOfNames: names that stand for people stay the same, and change only where the salt is none.
func TestSaltOfNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salt")
	first, lost, err := siteSalt(path)
	if err != nil || len(first) != 32 || lost != nil {
		t.Fatalf("%d bytes, %v, %v", len(first), lost, err)
	}
	if again, lost, err := siteSalt(path); err != nil || string(again) != string(first) || lost != nil {
		t.Errorf("another salt the second time, %v, %v", lost, err)
	}
	for n, want := range map[int]int{0: 32, 15: 32, 16: 16, 64: 64, 65: 32, 1 << 20: 32} {
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		salt, lost, err := siteSalt(path)
		if err != nil || len(salt) != want || (len(lost) == 1) != (want != n) {
			t.Errorf("over a salt of %d bytes: %d bytes, %v, %v", n, len(salt), lost, err)
		}
		if again, lost, err := siteSalt(path); err != nil || string(again) != string(salt) || lost != nil {
			t.Errorf("over a salt of %d bytes, the second time: another one, %v, %v", n, lost, err)
		}
	}
	if salt, _, err := siteSalt(t.TempDir()); err == nil {
		t.Errorf("a directory is the salt %q", salt)
	}
}
