package sitegen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fleettest"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// A pastLab is a fleet whose nodes push through their drops while a generator
// runs, and beside it what was truly so, added up on its own.
type pastLab struct {
	t     *testing.T
	dir   string
	fleet *demo.Fleet
	hosts []inventory.Host
	zone  *time.Location
	store *history.Store
	seq   uint64
	boot  string

	uses  []demo.Use
	users map[string]float64 // GPU-hours
	host  map[string]*hostTruth
	hours map[time.Time]*hourTruth
}

type hostTruth struct{ known, energy float64 } // hours, kWh

type hourTruth struct{ util, utilN, held, heldN float64 }

const pastStep = time.Minute

func newPastLab(t *testing.T, zone string, from, until time.Time, names ...string) *pastLab {
	t.Helper()
	z := need.Zone(t, zone)
	l := &pastLab{t: t, dir: t.TempDir(), fleet: demo.New(3, from.Add(-90*24*time.Hour)), zone: z,
		boot:  "11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
		users: map[string]float64{}, host: map[string]*hostTruth{}, hours: map[time.Time]*hourTruth{}}
	for _, name := range names {
		l.hosts = append(l.hosts, inventory.Host{Name: name})
		l.host[name] = &hostTruth{}
	}
	l.uses = fleettest.Truth(l.fleet, from, until)
	if err := os.MkdirAll(filepath.Join(l.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.store, err = history.Open(t.Context(), filepath.Join(l.dir, "state", "history.db"), from,
		history.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.store.Close() })
	return l
}

func (l *pastLab) generator() *sitegen.Generator {
	l.t.Helper()
	g, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(l.dir, "data"), Site: filepath.Join(l.dir, "site"), State: filepath.Join(l.dir, "state"),
		History: l.store,
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: l.hosts, AsOf: now}
		},
		Settings: board.Settings{ServiceAccounts: []string{"ci"}},
		About: render.Site{
			Zone: l.zone, Interval: 20 * time.Second, Energy: render.Energy{Price: 0.25, Currency: "EUR", CO2Grams: 60},
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return g
}

func (l *pastLab) write(name string, content []byte, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(l.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// collect makes the samples of a host from from up to until, and adds the truth
// of that time up. wrong is how far the node's clock is off.
func (l *pastLab) collect(
	host string, from, until time.Time, wrong time.Duration,
) (samples []snapshot.Sample, last *snapshot.Snapshot) {
	truth, part := l.host[host], pastStep.Hours()
	for at := from; at.Before(until); at = at.Add(pastStep) {
		l.seq++
		s := l.fleet.Collected(host, at)
		s.Seq, s.BootID, s.CollectedAt = l.seq, l.boot, snapshot.TimeOf(at.Add(wrong))
		samples, last = append(samples, s.Sample()), s
		told := at.Add(wrong)
		if told.Before(from) {
			continue // of this time it has told before
		}
		hour := l.hours[told.Truncate(time.Hour)]
		if hour == nil {
			hour = &hourTruth{}
			l.hours[told.Truncate(time.Hour)] = hour
		}
		truth.known += part
		for i := range s.GPUs {
			if v := s.GPUs[i].UtilizationGPU; v != nil {
				hour.util, hour.utilN = hour.util+float64(*v), hour.utilN+1
			}
			if v := s.GPUs[i].PowerDraw; v != nil {
				truth.energy += *v * part / 1000
			}
			hour.heldN++
			hour.held += l.hold(host, s.GPUs[i].Index, at, part)
		}
	}
	return samples, last
}

// hold adds to the users of a GPU what they held for a part of an hour, as the
// simulation says and not as a node reported it.
func (l *pastLab) hold(host string, gpu int, at time.Time, part float64) float64 {
	total, n := 0.0, 0
	for _, u := range l.uses {
		if u.Host == host && u.GPU == gpu && !u.From.After(at) && u.Until.After(at) {
			total, n = total+float64(u.Memory), n+1
		}
	}
	for _, u := range l.uses {
		if u.Host == host && u.GPU == gpu && !u.From.After(at) && u.Until.After(at) && total > 0 {
			l.users[u.User] += part * float64(u.Memory) / total
		}
	}
	return min(1, float64(n))
}

// push puts samples into the drop of a host, the newest with all there is.
func (l *pastLab) push(host string, samples []snapshot.Sample, last *snapshot.Snapshot) {
	raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: l.boot, Snapshot: last, Samples: samples})
	l.write("data/drop/"+host+"/latest.json.gz", raw, err)
}

func (l *pastLab) generate(g *sitegen.Generator, now time.Time) {
	l.t.Helper()
	if _, err := g.Generate(l.t.Context(), now); err != nil {
		l.t.Fatal(err)
	}
}

func (l *pastLab) read(name string, into any) {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, "site", filepath.FromSlash(name)))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *pastLab) near(what string, got, want, slack float64) {
	l.t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > slack {
		l.t.Errorf("%s: %.3f, and it was %.3f (within %.3f)", what, got, want, slack)
	}
}

type useJSON struct {
	Name        string
	GPUHours    float64  `json:"gpu_hours"`
	Utilization *float64 `json:"utilization_percent"`
	Energy      float64  `json:"energy_kwh"`
	Cost        float64  `json:"cost"`
	CO2         float64  `json:"co2_kg"`
	Free        float64  `json:"free_hours"`
	Unknown     float64  `json:"unknown_hours"`
	Known       float64  `json:"known_gpu_hours"`
	Coverage    float64  `json:"coverage"`
}

type windowsJSON struct {
	Windows []struct {
		Name         string
		From         time.Time
		Coverage     float64
		Users, Hosts []useJSON
	}
}

type fleetJSON struct {
	Spans []struct {
		Name        string
		Bounds      []time.Time
		Reported    []*float64 `json:"gpus_reported"`
		Held        []*float64 `json:"gpus_held"`
		Free        []*float64 `json:"gpus_not_held"`
		Utilization []*float64 `json:"utilization_percent"`
		Models      []struct {
			Name string
			Free []*float64 `json:"not_held"`
		}
	}
	Week []struct {
		Weekday, Hour int
		Known         float64 `json:"known_gpu_hours"`
		Held          *float64
	}
}

// TestPastCountsACardOnce: a card that two hosts list is one card in history, too; and what a host did with a
// card that it no longer has stays its own.
func TestPastCountsACardOnce(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes a hundred generations")
	const minutes = 60
	always := func(int) bool { return true }
	first := func(minute int) bool { return minute < minutes/2 }
	second := func(minute int) bool { return !first(minute) }
	for _, test := range []struct {
		name  string
		lists map[string]func(minute int) bool
		// late are the minutes that gpu01 delivers in a file of its hour at the end, when gpu02 has the card.
		late   func(minute int) bool
		silent bool // gpu01 says nothing while it has no card
		sliced bool // each host has a slice of its own
		hours  float64
	}{
		{name: "two hosts from the beginning", lists: map[string]func(int) bool{"gpu01": always, "gpu02": always},
			hours: 1},
		{name: "a clone that comes later", lists: map[string]func(int) bool{"gpu01": always, "gpu02": second},
			hours: 1},
		{name: "a clone that goes on", lists: map[string]func(int) bool{"gpu01": first, "gpu02": always}, hours: 1},
		{name: "a card that moves", lists: map[string]func(int) bool{"gpu01": first, "gpu02": second}, hours: 1},
		{name: "one that moves while its host is cut off",
			lists: map[string]func(int) bool{"gpu01": first, "gpu02": second},
			late:  func(minute int) bool { return minute >= 10 && minute < minutes/2 }, hours: 1},
		{name: "one that moves when its host is switched off",
			lists: map[string]func(int) bool{"gpu01": first, "gpu02": second}, silent: true,
			late: func(minute int) bool { return minute >= 10 && minute < minutes/2-1 }, hours: 1},
		{
			name: "slices of one card", lists: map[string]func(int) bool{"gpu01": always, "gpu02": always},
			sliced: true,
			hours:  2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			from := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			l := newPastLab(t, "UTC", from, from, "gpu01", "gpu02")
			g := l.generator()
			samples := map[string][]snapshot.Sample{}
			var late []snapshot.Sample
			for minute := range minutes {
				at := from.Add(time.Duration(minute) * time.Minute)
				for i, h := range l.hosts {
					has := test.lists[h.Name](minute)
					if test.silent && i == 0 && !has {
						continue
					}
					snap := &snapshot.Snapshot{Schema: snapshot.Schema, Host: h.Name, BootID: l.boot,
						Seq:             uint64(minute + 1),
						CollectedAt:     snapshot.TimeOf(at.Add(time.Duration(i) * time.Second)),
						IntervalSeconds: 60, GPUs: []snapshot.GPU{}, GPUsComplete: true,
						Processes: []snapshot.Process{}}
					if has {
						card := snapshot.GPU{
							UUID: "GPU-A", Name: "NVIDIA A100", Health: snapshot.HealthOK,
							MemoryTotal: new(int64(40960)),
							MemoryUsed:  new(int64(20000)), Readings: snapshot.Readings{UtilizationGPU: new(90)},
						}
						if test.sliced {
							card.MIGMode = "Enabled"
							card.MIGDevices = []snapshot.MIGDevice{{UUID: "MIG-" + h.Name, Profile: "3g.20gb"}}
						}
						snap.GPUs = append(snap.GPUs, card)
						snap.Processes = append(snap.Processes,
							snapshot.Process{GPUUUID: "GPU-A", PID: 77, Type: snapshot.Compute,
								User: "kai", UID: new(int64(1001)),
								Program: "python3", UsedMemory: new(int64(20000)), Alive: new(true)})
					}
					if i == 0 && test.late != nil && test.late(minute) {
						late = append(late, snap.Sample())
						continue
					}
					samples[h.Name] = append(samples[h.Name], snap.Sample())
					l.push(h.Name, samples[h.Name][max(0, len(samples[h.Name])-15):], snap)
				}
				if minute%5 == 0 || minute == minutes/2 {
					l.generate(g, at.Add(2*time.Second))
				}
			}
			if late != nil {
				raw, err := snapshot.EncodeHour(
					&snapshot.Hour{Host: "gpu01", BootID: l.boot, Start: from, Samples: late})
				l.write(fmt.Sprintf("data/drop/gpu01/hour-%s-%s.jsonl.gz", from.Format("20060102T15"), l.boot[:8]), raw,
					err)
			}
			end := from.Add(minutes * time.Minute)
			l.generate(g, end)
			l.generate(g, end.Add(11*time.Minute)) // the turn of every host's hours has come

			var users, hosts windowsJSON
			l.read("api/v1/history/users.json", &users)
			l.read("api/v1/history/hosts.json", &hosts)
			sum := func(list []useJSON) (hours float64) {
				for _, u := range list {
					hours += u.GPUHours
				}
				return hours
			}
			// What one generation learned late, and what the last sample stands for.
			const slack = 0.12
			l.near("the GPU hours of people", sum(users.Windows[0].Users), test.hours, slack)
			l.near("the GPU hours of hosts", sum(hosts.Windows[0].Hosts), test.hours, slack)
		})
	}
}

// TestHoursOfAHostAddUp: each hour known of a GPU is held, free or unknown, whatever could be read of its
// processes, and people have no more than what was held.
func TestHoursOfAHostAddUp(t *testing.T) {
	const minutes, gpus = 60, 3
	from := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	hosts := []string{"gpu01", "gpu02", "gpu03", "gpu04"}
	l := newPastLab(t, "UTC", from, from, hosts...)
	r := rand.New(rand.NewPCG(39, 10))
	held, free, unknown := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, host := range hosts {
		var samples []snapshot.Sample
		var last *snapshot.Snapshot
		kind := [gpus]int{r.IntN(3), r.IntN(3), r.IntN(3)}
		for minute := range minutes {
			s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: host, BootID: l.boot, Seq: uint64(minute + 1),
				IntervalSeconds: 60,
				CollectedAt:     snapshot.TimeOf(from.Add(time.Duration(minute) * time.Minute)), GPUsComplete: true,
				Processes: []snapshot.Process{}}
			for i := range gpus {
				if r.IntN(8) == 0 {
					kind[i] = r.IntN(3)
				}
				g := snapshot.GPU{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", host, i), Name: "NVIDIA A100",
					Health:      snapshot.HealthOK,
					MemoryTotal: new(int64(40960)), MemoryUsed: new(int64(20000)),
					Readings: snapshot.Readings{UtilizationGPU: new(90)}}
				switch kind[i] {
				case 0:
					free[host] += 1. / 60
					g.MemoryUsed, g.UtilizationGPU = new(int64(0)), new(0)
				case 1:
					held[host] += 1. / 60
					s.Processes = append(s.Processes,
						snapshot.Process{GPU: i, GPUUUID: g.UUID, PID: 77 + i, Type: snapshot.Compute,
							User: "kai",
							UID:  new(int64(1001)), Program: "python3", UsedMemory: new(int64(20000)),
							Alive: new(true)})
				default:
					unknown[host] += 1. / 60
					g.ProcessesUnknown = "Insufficient Permissions"
				}
				s.GPUs = append(s.GPUs, g)
			}
			samples, last = append(samples, s.Sample()), s
		}
		l.push(host, samples[minutes-15:], last)
		raw, err := snapshot.EncodeHour(&snapshot.Hour{Host: host, BootID: l.boot, Start: from, Samples: samples})
		l.write(fmt.Sprintf("data/drop/%s/hour-%s-%s.jsonl.gz", host, from.Format("20060102T15"), l.boot[:8]), raw, err)
	}
	g := l.generator()
	end := from.Add(minutes * time.Minute)
	l.generate(g, end)
	l.generate(g, end.Add(11*time.Minute)) // the turn of every host's hours has come

	var users, of windowsJSON
	l.read("api/v1/history/users.json", &users)
	l.read("api/v1/history/hosts.json", &of)
	if len(of.Windows) != 4 || len(of.Windows[0].Hosts) != len(hosts) {
		t.Fatalf("the windows are %+v", of.Windows)
	}
	people := 0.0
	for _, h := range of.Windows[0].Hosts {
		const slack = 0.08 // what the last sample stands for
		l.near("hours of "+h.Name+" that add up", h.GPUHours+h.Free+h.Unknown, h.Known, 0.002)
		l.near("hours held of "+h.Name, h.GPUHours, held[h.Name], slack)
		l.near("hours free of "+h.Name, h.Free, free[h.Name], slack)
		l.near("hours unknown of "+h.Name, h.Unknown, unknown[h.Name], slack)
		people += h.GPUHours
	}
	l.near("hours of people", users.Windows[0].Users[0].GPUHours, people, 0.01)
}

// TestUsageOfAMonth compares October, which is an hour longer in Paris, with a sum of its own: who held which GPU in
// which hour, drawn by lot. An hour before and one after the month do not count.
func TestUsageOfAMonth(t *testing.T) {
	t.Parallel()
	need.Time(t, "a month is taken in")
	paris := need.Zone(t, "Europe/Paris")
	from, end := time.Date(2026, 10, 1, 0, 0, 0, 0, paris), time.Date(2026, 11, 1, 0, 0, 0, 0, paris)
	l := newPastLab(t, "Europe/Paris", from, from, "gaia", "atlas")
	lot := rand.New(rand.NewPCG(7, 11))
	people := []string{"", "ada", "bob", "carla", "dora"} // "" holds nothing
	hours, of := map[string]float64{}, map[string]float64{}
	for hour := from.Add(-time.Hour); hour.Before(end.Add(time.Hour)); hour = hour.Add(time.Hour) {
		for _, host := range []string{"gaia", "atlas"} {
			holders := []string{people[lot.IntN(len(people))], people[lot.IntN(len(people))]}
			batch := history.Batch{Host: host, Boot: l.boot}
			for at := hour; at.Before(hour.Add(time.Hour)); at = at.Add(5 * time.Minute) {
				l.seq++
				sample := snapshot.Sample{Seq: l.seq, At: at}
				for i, who := range holders {
					memory := int64(20000)
					g := snapshot.GPUSample{Index: i, UUID: fmt.Sprint("GPU-", host, i), MemoryUsed: new(int64)}
					if who != "" {
						g.MemoryUsed, g.Users = &memory, []snapshot.UserMemory{{User: who, Memory: memory}}
					}
					sample.GPUs = append(sample.GPUs, g)
				}
				batch.Samples = append(batch.Samples, sample)
			}
			if err := l.store.IngestAll(t.Context(), hour.Add(time.Hour), []history.Batch{batch}); err != nil {
				t.Fatal(err)
			}
			for _, who := range holders {
				if who != "" && !hour.Before(from) && hour.Before(end) {
					hours[who]++
					of[host]++
				}
			}
		}
	}
	l.write("data/aliases.csv", []byte("dodo, dora\n@lab, ada, bob\n"), nil)
	options := sitegen.Options{
		Data: filepath.Join(l.dir, "data"), About: render.Site{Zone: l.zone},
		OpenHistory: func(ctx context.Context, now time.Time) (*history.Store, error) {
			return history.Open(ctx, filepath.Join(l.dir, "state", "history.db"), now, history.Options{})
		},
	}
	got, err := sitegen.Usage(t.Context(), options, from, end)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Users) != len(hours) || len(got.Hosts) != 2 || !got.From.Equal(from) || !got.To.Equal(end) {
		t.Errorf("%+v", got)
	}
	for _, u := range got.Users {
		l.near("GPU hours of "+u.Name, u.GPUHours, hours[u.Name], 0.1)
	}
	for _, h := range got.Hosts {
		l.near("GPU hours of "+h.Name, h.GPUHours, of[h.Name], 0.1)
		l.near("hours known of "+h.Name, h.KnownHours, 2*745, 0.2)
	}
	l.near("coverage", got.Coverage, 1, 0.001)
}
