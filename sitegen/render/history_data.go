package render

import (
	"strconv"
	"time"
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
func historyFiles(in Input, out *sink) error {
	if in.History == nil {
		return nil
	}
	all := len(in.Board.Hosts) <= pastHosts
	v := &view{in: in, booked: bookedByHost(in.Board)}
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		if in.History.Hosts[h.Name] == nil {
			continue
		}
		past := v.pastOf(h)
		if err := out.put(newFile("api/v1/hosts/"+h.Name+"/history.json", apiHostHistory(h.Name, &past, all))); err != nil {
			return err
		}
	}
	f := in.History.Fleet
	if f == nil {
		return nil
	}
	return out.put(
		newFile("api/v1/history/users.json", apiPastUsers(in, f)),
		newFile("api/v1/history/hosts.json", apiPastHosts(in, f)),
		newFile("api/v1/history/users.csv", csvUsers(in, f)),
		newFile("api/v1/history/hosts.csv", csvHosts(in, f)),
		newFile("api/v1/history/fleet.json", apiPastFleet(in, f), apiUnused(in)),
	)
}

func apiHostHistory(name string, in *pastInput, all bool) []byte {
	e := &apiEnc{}
	e.open('{')
	e.int("schema_version", APISchemaVersion)
	e.str("name", name)
	rows := map[string]pastGPU{}
	for _, g := range in.gpus {
		rows[g.key] = g
	}
	e.array("spans")
	for i := range in.past.Spans {
		if i > 0 && !all {
			break
		}
		s := &in.past.Spans[i]
		e.elem()
		e.str("name", spanNames[i])
		e.time("from", s.From)
		e.int64("step_seconds", int64(s.Step/time.Second))
		e.float("coverage", s.Coverage)
		e.array("gpus")
		for _, key := range apiKeys(s.GPUs) {
			gpu := s.GPUs[key]
			e.elem()
			e.str("key", key)
			row, ok := rows[key]
			if ok {
				e.int("gpu", row.index)
			} else {
				e.null("gpu")
			}
			e.intPtr("mig_device", row.slice)
			for m, field := range [PastMetrics]string{"utilization_percent", "memory_used_mib", "temperature_celsius", "power_draw_watts", "held_percent"} {
				e.array(field)
				for _, v := range gpu[m] {
					e.sep()
					switch {
					case v == PastUnknown:
						e.b = append(e.b, "null"...)
					case m == PastMemory:
						e.b = strconv.AppendInt(e.b, int64(v)*PastMemoryUnit, 10)
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

func apiPastHeader(in Input, f *FleetPast) *apiEnc {
	e := &apiEnc{}
	e.open('{')
	e.int("schema_version", APISchemaVersion)
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

func apiUse(e *apiEnc, in Input, u Use) {
	e.float("gpu_hours", u.GPUHours)
	e.floatPtr("utilization_percent", u.Utilization)
	e.float("idle_hours", u.IdleHours)
	e.float("energy_kwh", u.EnergyKWh)
	cost, co2 := in.Site.Energy.of(u.EnergyKWh)
	e.floatPtr("cost", cost)
	e.floatPtr("co2_kg", co2)
}

// of is what an amount of energy costs, and its CO2 in kg; nil where the factor
// is not told.
func (x Energy) of(kwh float64) (cost, co2 *float64) {
	if x.Price > 0 {
		v := kwh * x.Price
		cost = &v
	}
	if x.CO2Grams > 0 {
		v := kwh * x.CO2Grams / 1000
		co2 = &v
	}
	return cost, co2
}

func apiWindows(e *apiEnc, f *FleetPast, fill func(w *Window)) []byte {
	e.array("windows")
	for i := range f.Windows {
		w := &f.Windows[i]
		e.elem()
		e.str("name", windowNames[i])
		e.time("from", w.From)
		e.time("until", w.To)
		e.float("coverage", w.Coverage)
		fill(w)
		e.close('}')
	}
	e.close(']')
	return e.end()
}

func apiPastUsers(in Input, f *FleetPast) []byte {
	e := apiPastHeader(in, f)
	return apiWindows(e, f, func(w *Window) {
		for _, list := range []struct {
			key string
			of  []UserPast
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

func apiPastHosts(in Input, f *FleetPast) []byte {
	e := apiPastHeader(in, f)
	return apiWindows(e, f, func(w *Window) {
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
func apiPastFleet(in Input, f *FleetPast) []byte {
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
		e.str("name", spanNames[i])
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
		for _, name := range apiKeys(s.Free) {
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
func apiUnused(in Input) []byte {
	e := &apiEnc{comma: true}
	b := *in.Board
	if in.History.Fleet.AsOf.Before(b.GeneratedAt) {
		b.GeneratedAt = in.History.Fleet.AsOf
	}
	e.array("unused_bookings")
	for _, u := range UnusedBookings(&b, in.History) {
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
