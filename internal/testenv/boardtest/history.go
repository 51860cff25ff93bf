package boardtest

import (
	"math"
	"math/rand/v2"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// Remembered gives a fleet a past: waves with a gap in them.
func Remembered(in render.Input) render.Input {
	h := &render.History{Hosts: map[string]*render.HostPast{},
		Fleet: &render.FleetPast{AsOf: Now, Since: Now.AddDate(0, -2, 0)}}
	for i := range in.Board.Hosts {
		if in.Board.Hosts[i].State != board.Never {
			h.Hosts[in.Board.Hosts[i].Name] = pastFor(&in.Board.Hosts[i], i)
		}
	}
	for i, length := range render.PastLengths() {
		s := &h.Fleet.Spans[i]
		s.Coverage, s.Free, s.Held = 0.97, map[string][]*float64{}, map[string][]*float64{}
		for k := range 41 {
			s.At = append(s.At, Now.Add(-length+time.Duration(k)*length/40))
		}
		for k := range 40 {
			var step render.FleetStep
			if k < 20 || k > 24 {
				v := 10 + 5*math.Sin(float64(k)/3)
				step = render.FleetStep{Reported: new(30.0), Held: new(v), Free: new(30 - v), Utilization: new(3 * v),
					Watts: new(400 * v)}
			}
			s.Steps = append(s.Steps, step)
			for _, m := range in.Board.Models {
				s.Free[m.Name], s.Held[m.Name] = append(s.Free[m.Name], step.Free), append(s.Held[m.Name], step.Held)
			}
		}
		for j, u := range in.Board.Users {
			steps := make([]float64, len(s.Steps))
			for k := range steps {
				if held := s.Steps[k].Held; held != nil {
					steps[k] = *held / float64(j+2) / 2
				}
			}
			s.People = append(s.People, render.PersonSteps{Name: u.Name, Held: steps})
		}
	}
	if in.Board.Colors == nil {
		in.Board.Colors = map[string]int{}
		for i, u := range in.Board.Users[:min(len(in.Board.Users), board.PersonColors)] {
			in.Board.Colors[u.Name] = i + 1
		}
	}
	for d := range h.Fleet.Heat {
		for k := range h.Fleet.Heat[d] {
			if d != 3 {
				h.Fleet.Heat[d][k] = render.HeatHour{Held: new(float64(k * 4)), Utilization: new(50.0), KnownHours: 4}
			}
		}
	}
	for i := range h.Fleet.Windows {
		w := &h.Fleet.Windows[i]
		*w = render.Window{From: Now.AddDate(0, 0, -i*i*i), To: Now, Coverage: 0.93}
		for j, u := range in.Board.Users {
			w.Users = append(w.Users,
				render.UserPast{Name: u.Name,
					Use: render.Use{GPUHours: float64(100*(i+1)) / float64(j+1), Utilization: new(71.0), IdleHours: 3,
						EnergyKWh: 12}})
		}
		w.Users = append(w.Users, render.UserPast{Name: "", Use: render.Use{GPUHours: 0.2}},
			render.UserPast{Name: "gone", Use: render.Use{GPUHours: 0.1, Utilization: new(0.0)}})
		w.Teams = []render.UserPast{{Name: "vision", Use: render.Use{GPUHours: 40, Utilization: new(50.0)}}}
		for _, b := range in.Board.Hosts {
			w.Hosts = append(w.Hosts,
				render.PastHost{Name: b.Name, Use: render.Use{GPUHours: 20, Utilization: new(60.0), EnergyKWh: 9},
					FreeHours: 12, KnownHours: 33, Coverage: 0.9})
		}
	}
	in.History = h
	in.Site.Energy = render.Energy{Price: 0.3, Currency: "EUR", CO2Grams: 50}
	return in
}

// Thin leaves each host one GPU.
func Thin(in render.Input) render.Input {
	for i := range in.Board.Hosts {
		in.Board.Hosts[i].GPUs = in.Board.Hosts[i].GPUs[:1]
	}
	in.Board.FreeNow, in.Board.NextFree = nil, nil
	return in
}

func pastFor(h *board.Host, seed int) *render.HostPast {
	r := rand.New(rand.NewPCG(uint64(seed), 5))
	span := func(from time.Time, step time.Duration, n int) render.PastSpan {
		s := render.PastSpan{From: from, Seconds: int64(step / time.Second), Coverage: 0.9,
			GPUs: map[string]render.PastGPU{}}
		for g := range h.Rows() {
			var gpu render.PastGPU
			for m := range gpu {
				gpu[m] = make([]int16, n)
				for k := range gpu[m] {
					gpu[m][k] = int16(r.IntN(100))
					if k > n/3 && k < n/2 || g.Slice != nil && m != render.PastMemory && m != render.PastHeld {
						gpu[m][k] = render.PastUnknown
					}
				}
			}
			s.GPUs[g.Key()] = gpu
		}
		for k := range n {
			load, memory := int16(k), int16(2*k+1)
			if k > n/3 && k < n/2 {
				load, memory = render.PastUnknown, render.PastUnknown
			}
			s.Host.Load, s.Host.Memory = append(s.Host.Load, load), append(s.Host.Memory, memory)
		}
		return s
	}
	p := &render.HostPast{}
	for i, length := range render.PastLengths() {
		p.Spans[i] = span(Now.Truncate(15*time.Minute).Add(-length), length/time.Duration(render.PastSteps()[i]),
			render.PastSteps()[i])
	}
	return p
}
