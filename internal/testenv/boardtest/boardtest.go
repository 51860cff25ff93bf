// Package boardtest has boards for the tests of pages, data files and texts.
package boardtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// Now is the moment at which the boards are looked at.
var Now = time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)

// At is days, hours and minutes away from Now, on the full minute.
func At(days, hours, minutes int) time.Time {
	return Now.Truncate(time.Minute).Add(time.Duration(days*24+hours)*time.Hour + time.Duration(minutes)*time.Minute)
}

// day gives 96 steps of 15 minutes: a mean per quarter of the day, noise around
// it; a negative mean is a gap.
func day(seed uint64, noise float64, means ...float64) []*float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	steps := make([]*float64, 96)
	for i := range steps {
		mean := means[i*len(means)/len(steps)]
		if mean < 0 {
			continue
		}
		steps[i] = new(min(100, max(0, mean+noise*(r.Float64()*2-1))))
	}
	return steps
}

type card struct {
	name  string
	total int64 // MiB
	watts float64
}

var (
	h100    = card{"H100", 81559, 700}
	a100    = card{"A100", 40960, 400}
	rtx4090 = card{"RTX 4090", 24564, 450}
	rtx3090 = card{"RTX 3090", 24576, 350}
)

func (c card) full() string { return "NVIDIA " + c.name + fmt.Sprintf(" %dGB", (c.total+512)/1024) }

// gpu makes one row: used in MiB, util in %, temperature and power follow it.
func gpu(c card, index int, state board.State, used int64, util int) board.GPU {
	g := board.GPU{ShortName: c.name, State: state}
	g.Index, g.Name, g.Health = index, c.full(), snapshot.HealthOK
	g.UUID = fmt.Sprintf("GPU-%08x-0000-4000-8000-000000000000", index+int(c.total))
	g.MemoryTotal, g.MemoryUsed, g.MemoryFree = new(c.total), new(used), new(c.total-used)
	g.UtilizationGPU = new(util)
	g.Temperature = new(33 + util/3 + index%3)
	g.PowerDraw, g.PowerLimit = new(math.Round(c.watts*(100+7.8*float64(util)))/1000), new(c.watts)
	return g
}

// Process adds one to a GPU.
func Process(g *board.GPU, pid int, person, program string, mib int64, started time.Time) {
	p := board.Process{Person: person, Computes: true}
	p.GPU, p.GPUUUID, p.PID, p.Type = g.Index, g.UUID, pid, snapshot.Compute
	p.User, p.Program, p.UsedMemory = person, program, new(mib)
	p.StartedAt, p.Alive = &snapshot.Time{Time: started}, new(true)
	p.Share = new(float64(mib) / float64(*g.MemoryTotal))
	g.Processes = append(g.Processes, p)
}

// Booked is a booking.
func Booked(host string, gpus []int, name string, from, until time.Time, comment string) *board.Booking {
	return &board.Booking{
		ID: fmt.Sprintf("%s-%v-%s", host, gpus, name), Host: host, GPUs: gpus, Name: name,
		From: from, Until: until, Comment: comment, Kind: "booking",
		Active: !from.After(Now) && (until.IsZero() || until.After(Now)), Expired: !until.IsZero() && until.Before(Now),
		Line: 3 + len(name),
	}
}

func host(name, group string, c card, gpus ...board.GPU) board.Host {
	h := board.Host{
		Name: name, Group: group, Address: name, State: board.Up, Check: "passing",
		SnapshotAt: Now.Add(-12 * time.Second), Interval: 20 * time.Second,
		Driver: "580.82", CUDA: "13.0", GPUs: gpus, Tags: []string{"cuda13"},
	}
	h.Node.Cores, h.Node.Load1 = new(64), new(21.8)
	h.Node.MemoryTotal, h.Node.MemoryUsed = new(int64(515072)), new(int64(314193))
	h.Node.UptimeSeconds = new(int64(37 * 86400))
	h.Node.Kernel, h.Node.OS = "6.8.0-71-generic", "Ubuntu 24.04 LTS"
	h.Node.Disks = []snapshot.Disk{{Mount: "/", Total: 960000, Used: 460800},
		{Mount: "/scratch", Total: 7600000, Used: 6900000}}
	h.Node.Interfaces = []snapshot.Interface{{Name: "eno1", Addrs: []string{"10.0.4.21"}}}
	return h
}

// Lab is a small lab on a bad day: every state, every kind of trouble.
func Lab() render.Input {
	atlas := host("atlas", "Room 1", h100,
		gpu(h100, 0, board.InUse, 72900, 97), gpu(h100, 1, board.InUse, 72900, 96),
		gpu(h100, 2, board.Busy, 43700, 88), gpu(h100, 3, board.Contested, 67600, 91),
		gpu(h100, 4, board.Free, 4, 0), gpu(h100, 5, board.Free, 4, 0),
		gpu(h100, 6, board.Busy, 12700, 35), gpu(h100, 7, board.Busy, 79800, 0))
	atlas.Title, atlas.Note, atlas.Owner = "atlas", "no overnight jobs on 0–3 before deadlines", "vision"
	atlas.Tags = []string{"nvlink", "cuda13"}
	for i := range 2 {
		g := &atlas.GPUs[i]
		Process(g, 48112+i, "mira", "train.py", 66100, At(-2, -1, -30))
		Process(g, 48212+i, "mira", "tensorboard", 6800, At(-2, -1, -28))
		g.Booking, g.Utilization, g.Since = Booked("atlas", []int{0, 1}, "mira", At(-3, 0, 0), At(1, 7, 18),
			"camera ready"), day(uint64(i), 4, 12, 96, 96, 95), At(-2, -1, -30)
	}
	g := &atlas.GPUs[2]
	Process(g, 50121, "tomas", "finetune.py", 30100, At(0, -7, -2))
	Process(g, 50640, "lea", "jupyter", 9800, At(0, -3, -40))
	Process(g, 50702, "noor", "eval.py", 3800, At(0, -1, -5))
	g.Utilization, g.Since = day(3, 45, 55), At(0, -7, -2)
	g = &atlas.GPUs[3]
	Process(g, 50122, "jun", "eval.py", 67600, At(0, -1, -40))
	g.Booking, g.Next, g.Utilization = Booked("atlas", []int{3}, "eva", At(-1, 0, 0), At(2, 1, 18), ""), Booked("atlas",
		[]int{3}, "ada", At(3, 0, 0), At(5, 0, 0), "ablation"), day(4, 4, 2, 2, 90, 92)
	g = &atlas.GPUs[4]
	g.Next, g.FreeUntil, g.Utilization = Booked("atlas", []int{4}, "eva", At(1, 7, 18), At(4, 0, 0), "sweep"), At(1, 7,
		18), day(5, 4, 94, 90, 3, 0)
	atlas.GPUs[5].Utilization = day(6, 0, 0)
	g = &atlas.GPUs[6]
	Process(g, 51500, "lea", "jupyter", 12700, At(-4, -2, 0))
	g.Utilization = day(7, 40, 45, 20, 60, 35)
	g = &atlas.GPUs[7]
	Process(g, 51990, "sam", "jupyter", 79800, At(-5, 0, 0))
	g.IdleSince, g.Utilization = Now.Add(-19*time.Hour), day(8, 3, 92, 0, 0, 0)

	boreas := host("boreas", "Room 1", h100, gpu(h100, 0, board.Drained, 0, 0), gpu(h100, 1, board.Drained, 0, 0),
		gpu(h100, 2, board.Drained, 8100, 3))
	boreas.State, boreas.Check, boreas.Note = board.Maintenance, "maintenance", "new power supply"
	for i := range boreas.GPUs {
		boreas.GPUs[i].Reason = board.ReasonHost
		b := Booked("boreas", nil, "ops", At(0, -3, 0), At(0, 8, 18), "power supply")
		b.Kind = "maintenance"
		boreas.GPUs[i].Booking = b
	}

	ceres := host("ceres", "Room 1", a100, gpu(a100, 0, board.Free, 0, 0), gpu(a100, 1, board.Free, 12, 0),
		gpu(a100, 2, board.Busy, 21300, 64), gpu(a100, 3, board.Booked, 0, 0))
	g = &ceres.GPUs[2]
	g.MIGMode, g.UtilizationGPU = "enabled", nil
	Process(g, 9001, "kai", "serve", 15000, At(-9, 0, 0))
	Process(g, 9002, "noor", "batch.py", 6000, At(0, -2, 0))
	g.Processes[0].GPUInstanceID, g.Processes[1].GPUInstanceID = new(1), new(2)
	for i, profile := range []string{"3g.20gb", "2g.10gb", "1g.5gb"} {
		s := board.NewSlice(g,
			&snapshot.MIGDevice{Index: i, GPUInstanceID: new(i + 1), ComputeInstanceID: new(0), Profile: profile,
				UUID: fmt.Sprintf("MIG-%08d-0000-4000-8000-000000000000", i), MemoryTotal: new(int64(20096 >> i)),
				MemoryUsed: new(int64(12))})
		if s.State = board.Free; i < 2 {
			s.State, s.MemoryUsed, s.Since = board.Busy, new(
				*g.Processes[i].UsedMemory+12), g.Processes[i].StartedAt.Time
			p := g.Processes[i]
			p.Share = new(float64(*p.UsedMemory) / float64(*s.MemoryTotal))
			s.Processes = append(s.Processes, p)
		}
		g.Slices = append(g.Slices, s)
	}
	g = &ceres.GPUs[3]
	g.Booking, g.FreeFrom = Booked("ceres", []int{3}, "ada", At(0, -1, 0), At(0, 7, 18), "interactive"), At(0, 7, 18)

	dione := host("dione", "Room 2", a100)
	for i := range 8 {
		state := board.Busy
		if i < 3 {
			state = board.InUse
		}
		row := gpu(a100, i, state, 38400, 90+i)
		Process(&row, 7000+i, []string{"mira", "tomas"}[i/5], "pretrain.py", 38400, At(-1, -3, 0))
		if i < 3 {
			row.Booking = Booked("dione", []int{0, 1, 2}, "mira", At(-2, 0, 0), time.Time{}, "until the run ends")
		}
		row.Utilization = day(uint64(30+i), 6, 90)
		dione.GPUs = append(dione.GPUs, row)
	}

	europa := host("europa", "Room 2", a100, gpu(a100, 0, board.Busy, 39000, 99), gpu(a100, 1, board.Stuck, 32200, 0),
		gpu(a100, 2, board.Lost, 0, 0), gpu(a100, 3, board.Booked, 0, 0))
	europa.Check = "warning"
	*europa.Node.Load1 = 82.4
	Process(&europa.GPUs[0], 4100, "noor", "sweep.py", 39000, At(0, -11, 0))
	europa.GPUs[0].Utilization = day(20, 2, -1, 40, 97, 98)
	g = &europa.GPUs[1]
	Process(g, 48112, "kai", "", 32200, time.Time{})
	g.Processes[0].Alive, g.Processes[0].Computes, g.Processes[0].StartedAt, g.Reason = new(
		false), false, nil, board.ReasonDead
	g.Processes[0].Children = []snapshot.Child{{PID: 48130, User: "kai", Program: "python3"},
		{PID: 48131, User: "kai", Program: "python3"}}
	lost := &europa.GPUs[2]
	*lost = board.GPU{ShortName: a100.name, State: board.Lost, Reason: board.ReasonLost}
	lost.Index, lost.Name, lost.Health, lost.HealthReason = 2, a100.full(), snapshot.HealthLost, "GPU is lost.  Reboot the system to recover this GPU"
	g = &europa.GPUs[3]
	g.Booking, g.IdleSince, g.NoShow, g.FreeFrom = Booked("europa", []int{3}, "ada", At(0, -13, -42), At(0, 6, 18),
		"demo"), Now.Add(-11*time.Hour), true, At(0, 6, 18)
	g.Others = []board.Booking{*Booked("europa", []int{3}, "jun", At(0, -2, 0), At(1, 0, 0), "")}
	europa.Problems = []snapshot.Problem{{Code: "smi:unheard", Message: "GPU 2 could not be read", Host: "europa",
		GPU: new(2)}}

	fornax := host("fornax", "Room 2", rtx4090, gpu(rtx4090, 0, board.Unknown, 21000, 92),
		gpu(rtx4090, 1, board.Unknown, 0, 0))
	fornax.State, fornax.Check, fornax.SnapshotAt = board.Stale, "critical", At(0, -3, -2)
	for i := range fornax.GPUs {
		fornax.GPUs[i].Reason = board.ReasonStale
		forget(&fornax.GPUs[i])
		fornax.GPUs[i].Last = &board.LastSeen{State: board.Free, At: At(0, -3, -2)}
	}
	fornax.GPUs[0].Last.State, fornax.GPUs[0].Last.Users = board.Busy, []string{"tomas"}

	gaia := host("gaia", "Room 2", rtx3090, gpu(rtx3090, 0, board.Busy, 23000, 71), gpu(rtx3090, 1, board.Free, 0, 0))
	Process(&gaia.GPUs[0], 991, "lea", "render", 23000, At(0, 0, -50))
	for i := range gaia.GPUs {
		gaia.GPUs[i].Utilization = day(uint64(50+i), 20, 70, -1, 30, 65)
	}

	helios := host("helios", "Room 2", rtx3090, gpu(rtx3090, 0, board.Unknown, 0, 0))
	helios.ClockOffset, helios.State = 62*time.Minute, board.Stale
	helios.GPUs[0].Reason = board.ReasonStale
	forget(&helios.GPUs[0])
	icarus := host("icarus", "Room 2", rtx3090)
	icarus.State, icarus.SnapshotAt, icarus.Check, icarus.Driver = board.Never, time.Time{}, "critical", ""

	b := &board.Board{Hosts: []board.Host{atlas, boreas, ceres, dione, europa, fornax, gaia, helios, icarus}}
	b.Problems = []snapshot.Problem{
		{Code: "discovery:unreachable",
			Message: "Consul did not answer (connection refused); the hosts of 10:20 stand in"},
		{Code: "booking:syntax", Message: "a comma is missing between two entries", File: "comments.json", Line: 41,
			Col: 7},
		{Code: "booking:overlap", Message: "ada and jun both hold europa 3 until 17:00", Host: "europa", GPU: new(3),
			File: "comments.json", Line: 18, Col: 5},
	}
	b.Problems = append(b.Problems, europa.Problems...)
	b.InventoryAsOf = At(0, 0, -22)
	past := *Booked("gaia", []int{0}, "sam", At(-4, 0, 0), At(-1, 0, 0), "done <early>")
	b.Bookings = append(b.Bookings, past)
	Finish(b)
	b.Users[0].Mean2h, b.Users[0].Mean24h, b.Users[0].Mean1w = new(8.0), new(7.1), new(3.2)
	b.Users[1].Mean2h, b.Users[1].Mean24h = new(4.9), new(4.0)
	return render.Input{
		Board: b,
		Site: render.Site{Lab: "Vision & Learning Lab", Zone: time.FixedZone("CET", 3600), Version: "1.0.0",
			Interval: time.Minute, CommentsPath: "/srv/gpuboard/data/comments.json", Compat: []string{"all"}},
		Notice:    "**Power maintenance** in room 2 on Monday 08:00–12:00: boreas and dione will be off. See [the plan](https://example.org/plan).",
		HostNotes: map[string]string{"atlas": "## Rules\n\nPlease keep GPUs 0–3 for *deadlines*.\n\n- ask `#gpu` first\n- scratch is wiped on Sundays"},
	}
}

// Finish computes what follows from the hosts: totals, models, users, what is free.
func Finish(b *board.Board) {
	b.GeneratedAt, b.Interval = Now, time.Minute
	b.Users = nil
	users, seen := map[string]int{}, map[string]bool{}
	user := func(name string) *board.User {
		i, ok := users[name]
		if !ok {
			i = len(b.Users)
			users[name] = i
			b.Users = append(b.Users, board.User{Name: name})
		}
		return &b.Users[i]
	}
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Units() {
			for _, bk := range []*board.Booking{g.Booking, g.Next} {
				if bk == nil {
					continue
				}
				if bk.Active && bk.Kind == "booking" {
					held(user(bk.Name), g).Reserved++
				}
				if key := fmt.Sprint(bk.ID, bk.From); !seen[key] {
					seen[key] = true
					b.Bookings = append(b.Bookings, *bk)
				}
			}
			g.Holders = make([]string, len(g.Utilization))
			for _, p := range g.Processes {
				for i, load := range g.Utilization {
					if load != nil {
						g.Holders[i] = p.Person
					}
				}
				u := user(p.Person)
				u.Processes++
				held(u, g).Used += *p.Share
				u.Memory += *p.UsedMemory
				if !g.IdleSince.IsZero() {
					held(u, g).Idle++
				}
				if n := len(u.Where); n == 0 || u.Where[n-1].Host != h.Name {
					u.Where = append(u.Where, board.UserHost{Host: h.Name})
				}
				w := &u.Where[len(u.Where)-1]
				if g.Slice != nil && !slices.Contains(w.Slices, g.Label()) {
					w.Slices = append(w.Slices, g.Label())
				} else if g.Slice == nil && !slices.Contains(w.GPUs, g.Index) {
					w.GPUs = append(w.GPUs, g.Index)
				}
			}
		}
	}
	b.Count()
}

// held is where a user has a GPU or slice.
func held(u *board.User, g *board.GPU) *board.Holding {
	if g.Slice != nil {
		return &u.Slices
	}
	return &u.Holding
}

// Big is hosts of eight GPUs with two processes each, 30 % of them booked.
func Big(hosts int) render.Input {
	r := rand.New(rand.NewPCG(1, 2))
	b := &board.Board{}
	names := []string{"mira", "tomas", "lea", "noor", "jun", "eva", "ada", "sam", "kai", "ines", "otto", "yara", "bela",
		"finn", "hugo", "nils"}
	programs := []string{"train.py", "eval.py", "jupyter", "finetune.py", "serve", "sweep.py"}
	cards := []card{h100, a100, rtx4090, rtx3090}
	for i := range hosts {
		name, c := fmt.Sprintf("gpu%03d", i), cards[i%4]
		h := host(name, fmt.Sprintf("Rack %d", i/25+1), c)
		h.SnapshotAt = Now.Add(-time.Duration(r.IntN(25)) * time.Second)
		for j := range 8 {
			state := []board.State{board.Free, board.Busy, board.Busy, board.Busy, board.InUse, board.InUse,
				board.Booked, board.Stuck}[r.IntN(8)]
			used := int64(0)
			util := r.IntN(100)
			if state == board.Free || state == board.Booked {
				util = 0
			} else {
				used = int64(r.IntN(int(c.total)))
			}
			g := gpu(c, j, state, used, util)
			who := names[r.IntN(len(names))]
			if used > 0 {
				Process(&g, 1000+r.IntN(60000), who, programs[r.IntN(6)], used*2/3,
					Now.Add(-time.Duration(r.IntN(5000))*time.Minute))
				Process(&g, 1000+r.IntN(60000), who, programs[r.IntN(6)], used/3,
					Now.Add(-time.Duration(r.IntN(5000))*time.Minute))
			}
			if state == board.InUse || state == board.Booked {
				g.Booking = Booked(name, []int{j}, who, At(-r.IntN(3), -1, 0), At(r.IntN(4), 1+r.IntN(20), 0), "")
			}
			g.Utilization = day(r.Uint64(), 50, r.Float64()*100, r.Float64()*100, float64(util), float64(util))
			h.GPUs = append(h.GPUs, g)
		}
		b.Hosts = append(b.Hosts, h)
	}
	Finish(b)
	return render.Input{Board: b, Site: render.Site{Zone: time.UTC, Version: "1.0.0"}}
}

// WithSites adds boards of other clusters: one is up and reads two others, one is late, and one never answered.
func WithSites(in render.Input) render.Input {
	in.Board.ID = "0123456789abcdef"
	lab := Lab().Board
	own := board.Sums{Totals: lab.Totals, Models: lab.Models, Problems: 3}
	others := board.Others{Sums: own, IDs: []string{"00000000000000b1", "00000000000000b2"}, Depth: 1}
	up := board.Summary{ID: "00000000000000a1", Title: "North", GeneratedAt: At(0, 0, 0), Own: own, Others: others}
	late := board.Summary{ID: "00000000000000a2", Title: "South", GeneratedAt: At(0, 0, -12), Own: own}
	in.Board.Sites = []board.Site{
		{Name: "north", URL: "https://north.example.org/gpus/", State: board.Up, Summary: &up, ReadAt: Now},
		{Name: "south", URL: "https://south.example.org/", State: board.Stale, Summary: &late, ReadAt: At(0, 0, -12),
			Fault: "no answer"},
		{Name: "folder", State: board.Never},
	}
	return in
}

// Stale is Lab after every node fell silent.
func Stale() render.Input {
	in := Lab()
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		if h.State != board.Never {
			h.State, h.SnapshotAt = board.Stale, At(-1, 0, 0)
		}
		for g := range h.Rows() {
			g.Last = &board.LastSeen{State: g.State, At: h.SnapshotAt}
			g.State, g.Reason = board.Unknown, board.ReasonStale
			forget(g)
		}
	}
	in.Board.NextFree = nil
	Finish(in.Board)
	return in
}

// forget takes away what nobody may still believe, as a merge does.
func forget(g *board.GPU) {
	g.MemoryUsed, g.MemoryFree, g.UtilizationGPU, g.Temperature, g.PowerDraw = nil, nil, nil, nil, nil
	g.Processes, g.Utilization, g.IdleSince, g.NoShow, g.FreeFrom = nil, nil, time.Time{}, false, time.Time{}
}

// Files are those that a package makes of an input, by path.
func Files(in render.Input, of func(render.Input) error) ([]render.File, error) {
	var mu sync.Mutex
	var files []render.File
	in.Emit = func(f render.File) error {
		mu.Lock()
		defer mu.Unlock()
		files = append(files, f)
		return nil
	}
	err := of(in)
	slices.SortFunc(files, func(x, y render.File) int { return strings.Compare(x.Path, y.Path) })
	return files, err
}

// FileOf is the file with a path.
func FileOf(t testing.TB, files []render.File, path string) render.File {
	t.Helper()
	for _, f := range files {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("there is no %s", path)
	return render.File{}
}
