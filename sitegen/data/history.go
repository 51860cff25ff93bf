package data

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
		file := render.File{Path: "api/v1/hosts/" + h.Name + "/history.json", Kept: in.History.Kept[h.Name]}
		if past := in.History.Hosts[h.Name]; past != nil {
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

// A stepped is a mean for each step of a chart, in units; null where nothing is known.
type stepped struct {
	values []int16
	unit   int64
}

// MarshalJSONTo implements [json.MarshalerTo].
func (s stepped) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for _, v := range s.values {
		token := jsontext.Null
		if v != render.PastUnknown {
			token = jsontext.Int(int64(v) * s.unit)
		}
		if err := enc.WriteToken(token); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndArray)
}

func hostPastFile(h *board.Host, past *render.HostPast, all bool) []byte {
	type gpu struct {
		Key         safe    `json:"key"`
		GPU         *int    `json:"gpu"`
		Slice       *int    `json:"mig_device"`
		Utilization stepped `json:"utilization_percent"`
		Memory      stepped `json:"memory_used_mib"`
		Temperature stepped `json:"temperature_celsius"`
		Power       stepped `json:"power_draw_watts"`
		Held        stepped `json:"held_percent"`
	}
	type span struct {
		Name     string  `json:"name"`
		From     moment  `json:"from"`
		Step     int64   `json:"step_seconds"`
		Coverage reading `json:"coverage"`
		GPUs     []gpu   `json:"gpus"`
	}
	doc := struct {
		SchemaVersion int    `json:"schema_version"`
		Name          safe   `json:"name"`
		Spans         []span `json:"spans"`
	}{SchemaVersion: SchemaVersion, Name: safe(h.Name)}
	rows := map[string]*board.GPU{}
	for g := range h.Rows() {
		if render.HasPast(g) {
			rows[render.PastKey(g)] = g
		}
	}
	for i := range past.Spans {
		if i > 0 && !all {
			break
		}
		s := &past.Spans[i]
		one := span{Name: render.SpanNames()[i], From: moment{s.From}, Step: int64(s.Step / time.Second), Coverage: reading(s.Coverage)}
		for _, key := range slices.Sorted(maps.Keys(s.GPUs)) {
			metric := func(m int) stepped { return stepped{s.GPUs[key][m], 1} }
			g := gpu{
				Key: safe(key), Utilization: metric(render.PastUtilization), Memory: metric(render.PastMemory),
				Temperature: metric(render.PastTemperature), Power: metric(render.PastPower), Held: metric(render.PastHeld),
			}
			g.Memory.unit = render.PastMemoryUnit
			if row := rows[key]; row != nil {
				g.GPU, g.Slice = &row.Index, row.SliceIndex()
			}
			one.GPUs = append(one.GPUs, g)
		}
		doc.Spans = append(doc.Spans, one)
	}
	return encodeFile(&doc)
}

// A pastHeader starts the files of what was added up.
type pastHeader struct {
	SchemaVersion int    `json:"schema_version"`
	AsOf          moment `json:"as_of"`
	KnownSince    moment `json:"known_since"`
	Timezone      safe   `json:"timezone"`
	Energy        struct {
		Price    *reading `json:"price_per_kwh"`
		Currency known    `json:"currency"`
		CO2Grams *reading `json:"co2_grams_per_kwh"`
	} `json:"energy"`
}

func pastHeaderOf(in render.Input, f *render.FleetPast) pastHeader {
	h := pastHeader{SchemaVersion: SchemaVersion, AsOf: moment{f.AsOf}, KnownSince: moment{f.Since}, Timezone: safe(in.Site.Zone.String())}
	energy := in.Site.Energy
	h.Energy.Currency = known(energy.Currency)
	if energy.Price > 0 {
		h.Energy.Price = new(reading(energy.Price))
	}
	if energy.CO2Grams > 0 {
		h.Energy.CO2Grams = new(reading(energy.CO2Grams))
	}
	return h
}

type useDoc struct {
	GPUHours    reading  `json:"gpu_hours"`
	Utilization *reading `json:"utilization_percent"`
	IdleHours   reading  `json:"idle_hours"`
	EnergyKWh   reading  `json:"energy_kwh"`
	Cost        *reading `json:"cost"`
	CO2         *reading `json:"co2_kg"`
}

func useOf(in render.Input, u render.Use) useDoc {
	cost, co2 := in.Site.Energy.Of(u.EnergyKWh)
	return useDoc{reading(u.GPUHours), (*reading)(u.Utilization), reading(u.IdleHours), reading(u.EnergyKWh), (*reading)(cost), (*reading)(co2)}
}

type windowHead struct {
	Name     string  `json:"name"`
	From     moment  `json:"from"`
	Until    moment  `json:"until"`
	Coverage reading `json:"coverage"`
}

func windowHeadOf(f *render.FleetPast, i int) windowHead {
	w := &f.Windows[i]
	return windowHead{render.WindowNames()[i], moment{w.From}, moment{w.To}, reading(w.Coverage)}
}

func usersPastFile(in render.Input, f *render.FleetPast) []byte {
	type user struct {
		Name known `json:"name"`
		useDoc
	}
	type window struct {
		windowHead
		Users []user `json:"users"`
		Teams []user `json:"teams"`
	}
	doc := struct {
		pastHeader
		Windows []window `json:"windows"`
	}{pastHeader: pastHeaderOf(in, f)}
	of := func(u *render.UserPast) user { return user{known(u.Name), useOf(in, u.Use)} }
	for i := range f.Windows {
		doc.Windows = append(doc.Windows, window{windowHeadOf(f, i), docsOf(f.Windows[i].Users, of), docsOf(f.Windows[i].Teams, of)})
	}
	return encodeFile(&doc)
}

func hostsPastFile(in render.Input, f *render.FleetPast) []byte {
	type host struct {
		Name safe `json:"name"`
		useDoc
		FreeHours  reading `json:"free_hours"`
		KnownHours reading `json:"known_gpu_hours"`
		Coverage   reading `json:"coverage"`
	}
	type window struct {
		windowHead
		Hosts []host `json:"hosts"`
	}
	doc := struct {
		pastHeader
		Windows []window `json:"windows"`
	}{pastHeader: pastHeaderOf(in, f)}
	of := func(h *render.PastHost) host {
		return host{safe(h.Name), useOf(in, h.Use), reading(h.FreeHours), reading(h.KnownHours), reading(h.Coverage)}
	}
	for i := range f.Windows {
		doc.Windows = append(doc.Windows, window{windowHeadOf(f, i), docsOf(f.Windows[i].Hosts, of)})
	}
	return encodeFile(&doc)
}

type (
	fleetDoc struct {
		pastHeader
		Spans  []fleetSpan `json:"spans"`
		Week   []weekHour  `json:"week"`
		Unused []unusedDoc `json:"unused_bookings"`
	}
	fleetSpan struct {
		Name        string      `json:"name"`
		Coverage    reading     `json:"coverage"`
		Bounds      []moment    `json:"bounds"`
		Reported    []*reading  `json:"gpus_reported"`
		Held        []*reading  `json:"gpus_held"`
		Free        []*reading  `json:"gpus_not_held"`
		Utilization []*reading  `json:"utilization_percent"`
		Watts       []*reading  `json:"power_watts"`
		Models      []freeModel `json:"models"`
	}
	freeModel struct {
		Name    safe       `json:"name"`
		NotHeld []*reading `json:"not_held"`
	}
	weekHour struct {
		Weekday     int      `json:"weekday"`
		Hour        int      `json:"hour"`
		Held        *reading `json:"held_percent"`
		Utilization *reading `json:"utilization_percent"`
		KnownHours  reading  `json:"known_gpu_hours"`
	}
	unusedDoc struct {
		Host   safe    `json:"host"`
		GPU    int     `json:"gpu"`
		Slice  *int    `json:"mig_device"`
		Name   safe    `json:"name"`
		From   moment  `json:"from"`
		Until  moment  `json:"until"`
		Booked reading `json:"booked_hours"`
		Known  reading `json:"known_hours"`
		Unused reading `json:"unused_hours"`
	}
)

// fleetPastFile changes with the view of the fleet, not with every generation:
// bookings that nobody used are counted up to the time of that view.
func fleetPastFile(in render.Input, f *render.FleetPast) []byte {
	doc := fleetDoc{pastHeader: pastHeaderOf(in, f)}
	for i := range f.Spans {
		s := &f.Spans[i]
		span := fleetSpan{Name: render.SpanNames()[i], Coverage: reading(s.Coverage)}
		span.Bounds = docsOf(s.At, func(t *time.Time) moment { return moment{*t} })
		for _, step := range s.Steps {
			span.Reported = append(span.Reported, (*reading)(step.Reported))
			span.Held = append(span.Held, (*reading)(step.Held))
			span.Free = append(span.Free, (*reading)(step.Free))
			span.Utilization = append(span.Utilization, (*reading)(step.Utilization))
			span.Watts = append(span.Watts, (*reading)(step.Watts))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Free)) {
			notHeld := docsOf(s.Free[name], func(v **float64) *reading { return (*reading)(*v) })
			span.Models = append(span.Models, freeModel{safe(name), notHeld})
		}
		doc.Spans = append(doc.Spans, span)
	}
	for d := range f.Heat {
		for h := range f.Heat[d] {
			c := &f.Heat[d][h]
			doc.Week = append(doc.Week, weekHour{d, h, (*reading)(c.Held), (*reading)(c.Utilization), reading(c.KnownHours)})
		}
	}
	b := *in.Board
	if f.AsOf.Before(b.GeneratedAt) {
		b.GeneratedAt = f.AsOf
	}
	doc.Unused = docsOf(render.UnusedBookings(&b, in.History), func(u *render.UnusedBooking) unusedDoc {
		return unusedDoc{
			safe(u.Booking.Host), u.GPU.Index, u.GPU.SliceIndex(), safe(u.Booking.Name), moment{u.Booking.From}, moment{u.Booking.Until},
			reading(u.Past.Hours()), reading(u.Known.Hours()), reading(u.Spare.Hours()),
		}
	})
	return encodeFile(&doc)
}
