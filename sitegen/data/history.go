package data

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// historyFiles are the past for programs:
//
//	api/v1/history/users.json, .csv     who used how much, in four windows
//	api/v1/history/hosts.json, .csv     how much each host was used
//	api/v1/history/fleet.json           the fleet over time, the hours of the week, what is held for nothing
//	api/v1/hosts/<h>/history.json       the charts of a host
//
// Coverage stands beside everything that was added up, from 0 to 1.
//
// They go into out, each host's as it is made.
func historyFiles(in render.Input, out *render.Sink) error {
	if in.History == nil {
		return nil
	}
	all := len(in.Board.Hosts) <= render.FullHistoryHosts
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		past := in.History.Hosts[h.Name]
		if past == nil {
			continue
		}
		if err := out.Put(render.NewFile("api/v1/hosts/"+h.Name+"/history.json", apiHostHistory(h, past, all))); err != nil {
			return err
		}
	}
	f := in.History.Fleet
	if f == nil {
		return nil
	}
	return out.Put(
		render.NewFile("api/v1/history/users.json", apiPastUsers(in, f)),
		render.NewFile("api/v1/history/hosts.json", apiPastHosts(in, f)),
		render.NewFile("api/v1/history/users.csv", csvUsers(in, f)),
		render.NewFile("api/v1/history/hosts.csv", csvHosts(in, f)),
		render.NewFile("api/v1/history/fleet.json", apiPastFleet(in, f), apiUnused(in)),
	)
}

func apiHostHistory(h *board.Host, past *render.HostPast, all bool) []byte {
	e := &apiEnc{}
	e.open('{')
	e.int("schema_version", SchemaVersion)
	e.str("name", h.Name)
	rows := map[string]*board.GPU{}
	for g := range h.Rows() {
		if render.HasPast(g) {
			rows[render.PastKey(g)] = g
		}
	}
	e.array("spans")
	for i := range past.Spans {
		if i > 0 && !all {
			break
		}
		s := &past.Spans[i]
		e.elem()
		e.str("name", render.SpanNames()[i])
		e.time("from", s.From)
		e.int64("step_seconds", int64(s.Step/time.Second))
		e.float("coverage", s.Coverage)
		e.array("gpus")
		for _, key := range slices.Sorted(maps.Keys(s.GPUs)) {
			gpu := s.GPUs[key]
			e.elem()
			e.str("key", key)
			if row := rows[key]; row != nil {
				e.int("gpu", row.Index)
				e.intPtr("mig_device", row.SliceIndex())
			} else {
				e.null("gpu")
				e.null("mig_device")
			}
			for m, field := range [render.PastMetrics]string{"utilization_percent", "memory_used_mib", "temperature_celsius", "power_draw_watts", "held_percent"} {
				e.array(field)
				for _, v := range gpu[m] {
					e.sep()
					switch {
					case v == render.PastUnknown:
						e.b = append(e.b, "null"...)
					case m == render.PastMemory:
						e.b = strconv.AppendInt(e.b, int64(v)*render.PastMemoryUnit, 10)
					default:
						e.b = strconv.AppendInt(e.b, int64(v), 10)
					}
				}
				e.close(']')
			}
			e.close('}')
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	return e.end()
}

func apiPastHeader(in render.Input, f *render.FleetPast) *apiEnc {
	e := &apiEnc{}
	e.open('{')
	e.int("schema_version", SchemaVersion)
	e.time("as_of", f.AsOf)
	e.time("known_since", f.Since)
	e.str("timezone", compatZone(in.Site.Zone).String())
	factor := func(key string, v float64) {
		if v > 0 {
			e.float(key, v)
		} else {
			e.null(key)
		}
	}
	e.object("energy")
	factor("price_per_kwh", in.Site.Energy.Price)
	e.strNull("currency", in.Site.Energy.Currency)
	factor("co2_grams_per_kwh", in.Site.Energy.CO2Grams)
	e.close('}')
	return e
}

func apiUse(e *apiEnc, in render.Input, u render.Use) {
	e.float("gpu_hours", u.GPUHours)
	e.floatPtr("utilization_percent", u.Utilization)
	e.float("idle_hours", u.IdleHours)
	e.float("energy_kwh", u.EnergyKWh)
	cost, co2 := in.Site.Energy.Of(u.EnergyKWh)
	e.floatPtr("cost", cost)
	e.floatPtr("co2_kg", co2)
}

func apiWindows(e *apiEnc, f *render.FleetPast, fill func(w *render.Window)) []byte {
	e.array("windows")
	for i := range f.Windows {
		w := &f.Windows[i]
		e.elem()
		e.str("name", render.WindowNames()[i])
		e.time("from", w.From)
		e.time("until", w.To)
		e.float("coverage", w.Coverage)
		fill(w)
		e.close('}')
	}
	e.close(']')
	return e.end()
}

func apiPastUsers(in render.Input, f *render.FleetPast) []byte {
	e := apiPastHeader(in, f)
	return apiWindows(e, f, func(w *render.Window) {
		for _, list := range []struct {
			key string
			of  []render.UserPast
		}{{"users", w.Users}, {"teams", w.Teams}} {
			e.array(list.key)
			for _, u := range list.of {
				e.elem()
				e.strNull("name", u.Name)
				apiUse(e, in, u.Use)
				e.close('}')
			}
			e.close(']')
		}
	})
}

func apiPastHosts(in render.Input, f *render.FleetPast) []byte {
	e := apiPastHeader(in, f)
	return apiWindows(e, f, func(w *render.Window) {
		e.array("hosts")
		for _, h := range w.Hosts {
			e.elem()
			e.str("name", h.Name)
			apiUse(e, in, h.Use)
			e.float("free_hours", h.FreeHours)
			e.float("known_gpu_hours", h.KnownHours)
			e.float("coverage", h.Coverage)
			e.close('}')
		}
		e.close(']')
	})
}

// apiPastFleet is fleet.json up to what [apiUnused] adds.
func apiPastFleet(in render.Input, f *render.FleetPast) []byte {
	e := apiPastHeader(in, f)
	list := func(key string, n int, at func(i int) *float64) {
		e.array(key)
		for i := range n {
			e.sep()
			if v := at(i); v != nil {
				e.b = apiFloat(e.b, *v)
			} else {
				e.b = append(e.b, "null"...)
			}
		}
		e.close(']')
	}
	e.array("spans")
	for i := range f.Spans {
		s := &f.Spans[i]
		e.elem()
		e.str("name", render.SpanNames()[i])
		e.float("coverage", s.Coverage)
		e.array("bounds")
		for _, t := range s.At {
			e.sep()
			e.b = append(apiTime(append(e.b, '"'), t), '"')
		}
		e.close(']')
		n := len(s.Steps)
		list("gpus_reported", n, func(i int) *float64 { return s.Steps[i].Reported })
		list("gpus_held", n, func(i int) *float64 { return s.Steps[i].Held })
		list("gpus_not_held", n, func(i int) *float64 { return s.Steps[i].Free })
		list("utilization_percent", n, func(i int) *float64 { return s.Steps[i].Utilization })
		list("power_watts", n, func(i int) *float64 { return s.Steps[i].Watts })
		e.array("models")
		for _, name := range slices.Sorted(maps.Keys(s.Free)) {
			e.elem()
			e.str("name", name)
			list("not_held", len(s.Free[name]), func(i int) *float64 { return s.Free[name][i] })
			e.close('}')
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	e.array("week")
	for d := range f.Heat {
		for h := range f.Heat[d] {
			c := &f.Heat[d][h]
			e.elem()
			e.int("weekday", d)
			e.int("hour", h)
			e.floatPtr("held_percent", c.Held)
			e.floatPtr("utilization_percent", c.Utilization)
			e.float("known_gpu_hours", c.KnownHours)
			e.close('}')
		}
	}
	e.close(']')
	return e.b
}

// apiUnused is the end of fleet.json, which lists booked time that nobody used. It
// moves with the view of the fleet, not with every generation.
func apiUnused(in render.Input) []byte {
	e := &apiEnc{comma: true}
	b := *in.Board
	if in.History.Fleet.AsOf.Before(b.GeneratedAt) {
		b.GeneratedAt = in.History.Fleet.AsOf
	}
	e.array("unused_bookings")
	for _, u := range render.UnusedBookings(&b, in.History) {
		e.elem()
		e.str("host", u.Booking.Host)
		e.int("gpu", u.GPU.Index)
		e.intPtr("mig_device", u.GPU.SliceIndex())
		e.str("name", u.Booking.Name)
		e.time("from", u.Booking.From)
		e.time("until", u.Booking.Until)
		e.float("booked_hours", u.Past.Hours())
		e.float("known_hours", u.Known.Hours())
		e.float("unused_hours", u.Spare.Hours())
		e.close('}')
	}
	e.close(']')
	return e.end()
}
