package data

import (
	"maps"
	"slices"

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
func historyFiles(in render.Input) error {
	if in.History == nil {
		return nil
	}
	all := len(in.Board.Hosts) <= render.FullHistoryHosts
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		file := render.File{Path: HostsDir + h.Name + "/history.json", Kept: in.History.Kept[h.Name]}
		if past := in.History.Hosts[h.Name]; past != nil && !file.Kept {
			file.Content = hostPastFile(h, past, all)
		} else if !file.Kept {
			continue
		}
		if err := in.Put(file); err != nil {
			return err
		}
	}
	f := in.History.Fleet
	if f == nil {
		return nil
	}
	return in.Put(
		render.NewFile("api/v1/history/users.json", usersPastFile(in, f)),
		render.NewFile("api/v1/history/hosts.json", hostsPastFile(in, f)),
		render.NewFile("api/v1/history/users.csv", csvUsers(in, f)),
		render.NewFile("api/v1/history/hosts.csv", csvHosts(in, f)),
		render.NewFile("api/v1/history/fleet.json", fleetPastFile(in, f)),
	)
}

// steps are a mean for each step of a chart, of values in units; nil where nothing is known.
func steps(values []int16, unit int64) []*int64 {
	return docsOf(values, func(v *int16) *int64 {
		if *v == render.PastUnknown {
			return nil
		}
		return new(int64(*v) * unit)
	})
}

func hostPastFile(h *board.Host, past *render.HostPast, all bool) []byte {
	rows := map[string]*board.GPU{}
	for g := range h.Rows() {
		if render.HasPast(g) {
			rows[g.Key()] = g
		}
	}
	var spans []object
	for i := range past.Spans {
		if i > 0 && !all {
			break
		}
		s, gpus := &past.Spans[i], []object{}
		for _, key := range slices.Sorted(maps.Keys(s.GPUs)) {
			metric := func(m int, unit int64) []*int64 { return steps(s.GPUs[key][m], unit) }
			var index, slice *int
			if row := rows[key]; row != nil {
				index, slice = &row.Index, row.SliceIndex()
			}
			gpus = append(gpus, object{
				{"key", safe(key)}, {"gpu", index}, {"mig_device", slice},
				{"utilization_percent", metric(render.PastUtilization, 1)},
				{"memory_used_mib", metric(render.PastMemory, render.PastMemoryUnit)},
				{"temperature_celsius", metric(render.PastTemperature, 1)},
				{"power_draw_watts", metric(render.PastPower, 1)},
				{"held_percent", metric(render.PastHeld, 1)},
			})
		}
		spans = append(spans, object{
			{"name", render.SpanNames()[i]}, {"from", s.From}, {"step_seconds", s.Seconds}, {"coverage", s.Coverage},
			{"host", object{
				{"load_percent", steps(s.Host.Load, 1)},
				{"memory_used_mib", steps(s.Host.Memory, render.PastHostMemoryUnit)},
			}},
			{"gpus", gpus},
		})
	}
	return encodeFile(object{{"schema_version", SchemaVersion}, {"name", safe(h.Name)}, {"spans", spans}})
}

// pastHeader starts the files of what was added up.
func pastHeader(in render.Input, f *render.FleetPast) object {
	energy := in.Site.Energy
	price, _ := energy.Of(1)
	_, co2 := energy.Of(1000) // whose kilograms are the grams of one
	return object{
		{"schema_version", SchemaVersion}, {"as_of", f.AsOf}, {"known_since", f.Since},
		{"timezone", safe(in.Site.Zone.String())},
		{"energy", object{{"price_per_kwh", price}, {"currency", energy.Currency}, {"co2_grams_per_kwh", co2}}},
	}
}

// useOf are the members of what somebody used.
func useOf(in render.Input, u render.Use) object {
	cost, co2 := in.Site.Energy.Of(u.EnergyKWh)
	return object{
		{"gpu_hours", u.GPUHours}, {"utilization_percent", u.Utilization}, {"idle_hours", u.IdleHours},
		{"energy_kwh", u.EnergyKWh}, {"cost", cost}, {"co2_kg", co2},
	}
}

// windowsFile has a list of each window, with the members that of returns.
func windowsFile(in render.Input, f *render.FleetPast, of func(*render.Window) object) []byte {
	var windows []object
	for i := range f.Windows {
		w := &f.Windows[i]
		head := object{
			{"name", render.WindowNames()[i]}, {"from", w.From}, {"until", w.To}, {"coverage", w.Coverage},
		}
		windows = append(windows, append(head, of(w)...))
	}
	return encodeFile(pastHeader(in, f), object{{"windows", windows}})
}

func usersPastFile(in render.Input, f *render.FleetPast) []byte {
	user := func(u *render.UserPast) object { return append(object{{"name", u.Name}}, useOf(in, u.Use)...) }
	return windowsFile(in, f, func(w *render.Window) object {
		return object{{"users", docsOf(w.Users, user)}, {"teams", docsOf(w.Teams, user)}}
	})
}

func hostsPastFile(in render.Input, f *render.FleetPast) []byte {
	host := func(h *render.PastHost) object {
		return slices.Concat(object{{"name", safe(h.Name)}}, useOf(in, h.Use), object{
			{"free_hours", h.FreeHours}, {"unknown_hours", h.UnknownHours()}, {"known_gpu_hours", h.KnownHours},
			{"coverage", h.Coverage},
		})
	}
	return windowsFile(in, f, func(w *render.Window) object { return object{{"hosts", docsOf(w.Hosts, host)}} })
}

// fleetPastFile changes with the view of the fleet, not with every generation:
// bookings that nobody used are counted up to the time of that view.
func fleetPastFile(in render.Input, f *render.FleetPast) []byte {
	var spans, week []object
	for i := range f.Spans {
		s := &f.Spans[i]
		values := func(of func(*render.FleetStep) *float64) []*float64 { return docsOf(s.Steps, of) }
		var models []object
		for _, name := range slices.Sorted(maps.Keys(s.Free)) {
			models = append(models, object{{"name", safe(name)}, {"not_held", s.Free[name]}})
		}
		spans = append(spans, object{
			{"name", render.SpanNames()[i]}, {"coverage", s.Coverage}, {"bounds", s.At},
			{"gpus_reported", values(func(s *render.FleetStep) *float64 { return s.Reported })},
			{"gpus_held", values(func(s *render.FleetStep) *float64 { return s.Held })},
			{"gpus_not_held", values(func(s *render.FleetStep) *float64 { return s.Free })},
			{"utilization_percent", values(func(s *render.FleetStep) *float64 { return s.Utilization })},
			{"power_watts", values(func(s *render.FleetStep) *float64 { return s.Watts })},
			{"models", models},
		})
	}
	for d := range f.Heat {
		for h, c := range f.Heat[d] {
			week = append(week, object{
				{"weekday", d}, {"hour", h}, {"held_percent", c.Held}, {"utilization_percent", c.Utilization},
				{"known_gpu_hours", c.KnownHours},
			})
		}
	}
	b := *in.Board
	if f.AsOf.Before(b.GeneratedAt) {
		b.GeneratedAt = f.AsOf
	}
	unused := docsOf(render.UnusedBookings(&b, in.History), func(u *render.UnusedBooking) object {
		bk := u.Booking
		return object{
			{"host", safe(bk.Host)}, {"gpu", u.GPU.Index}, {"mig_device", u.GPU.SliceIndex()}, {"name", safe(bk.Name)},
			{"from", bk.From}, {"until", bk.Until},
			{"booked_hours", u.Past.Hours()}, {"known_hours", u.Known.Hours()}, {"unused_hours", u.Spare.Hours()},
		}
	})
	return encodeFile(pastHeader(in, f), object{{"spans", spans}, {"week", week}, {"unused_bookings", unused}})
}
