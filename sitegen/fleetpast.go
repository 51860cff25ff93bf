package sitegen

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/sitegen/render"
)

const (
	fleetName = "fleet.json"
	// lateBy is how long after its end a day can still change: what nodes could
	// not send is kept for 48 h.
	lateBy = 50 * time.Hour
	// minStep is how old a step must be to be worth a mean.
	minStep = 10 * time.Minute
	// mostPeople is how many people's use over time is kept.
	mostPeople = 30
	// maxFleetBytes bounds the file that is read back.
	maxFleetBytes = 16 << 20
)

// fleetFile is the view of the fleet as it is kept for the generations in which it is not due, so that a process that
// ends does not add the fleet up each time.
type fleetFile struct {
	Zone string            `json:"zone"`
	Done time.Time         `json:"done"`
	Past *render.FleetPast `json:"past"`
}

// A dayPast is one day of the site's zone, of 23, 24 or 25 hours, added up by the hour.
type dayPast struct {
	Start, End time.Time
	history.Fleet
}

// renewFleet renews the view of the fleet when it is due.
func (g *Generator) renewFleet(ctx context.Context, now time.Time, b *board.Board, person func(string) string) error {
	every := lookEvery
	if len(b.Hosts) > 100 {
		every = 3 * lookEvery
	}
	if f := g.fleet; f != nil && !f.Done.After(now) && f.Done.Truncate(every).Equal(now.Truncate(every)) {
		return nil
	}
	days, err := g.readDays(ctx, now, b)
	if err != nil {
		return err
	}
	past, err := g.sumUp(ctx, now, b, person, days)
	if err != nil {
		return err
	}
	g.fleet = &fleetFile{Zone: g.opt.About.Zone.String(), Done: now, Past: past}
	if g.opt.Pretend { // what was added up for another time is not kept for those who look now
		return nil
	}
	return writeState(filepath.Join(g.opt.State, fleetName), g.fleet)
}

// loadFleet reads what an earlier process kept, unless it is at hand already.
func (g *Generator) loadFleet() {
	if g.fleet != nil {
		return
	}
	f := &fleetFile{}
	data, err := atomicfile.Read(filepath.Join(g.opt.State, fleetName), maxFleetBytes)
	if err != nil || json.Unmarshal(data, f) != nil {
		return // it is added up again
	}
	if f.Zone == g.opt.About.Zone.String() && f.Past != nil && f.Past.Sound() {
		g.fleet = f
	}
}

// modelsOf gives the model of each GPU that the board shows.
func modelsOf(b *board.Board) func(history.Key) string {
	models := map[history.Key]string{}
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for j := range h.GPUs {
			g := &h.GPUs[j]
			models[history.Key{Host: h.Name, GPU: g.Key()}] = g.ShortName
		}
	}
	return func(k history.Key) string { return models[k] }
}

// readDays returns the days of the last year up to today, oldest first. Days that cannot change any more are added
// up once, and kept in history.
func (g *Generator) readDays(ctx context.Context, now time.Time, b *board.Board) (days []*dayPast, err error) {
	store, zone, class := g.opt.History, g.opt.About.Zone, modelsOf(b)
	oldest, newest, err := store.Known(ctx)
	if err != nil || oldest.IsZero() {
		return nil, err
	}
	ends := history.Days(now.In(zone).AddDate(0, 0, -364), now, zone)
	for i := range ends[:len(ends)-1] {
		if !ends[i+1].After(oldest) {
			continue
		}
		at, day := hoursOf(ends[i], ends[i+1]), &dayPast{Start: ends[i].UTC(), End: ends[i+1].UTC()}
		// By a clock that jumped ahead, days would be complete that are not.
		if late := ends[i+1].Add(lateBy); now.After(late) && newest.After(late) {
			kept := false
			if day.Fleet, kept, err = keptDay(ctx, store, at, class); err == nil && !kept {
				err = store.KeepFleet(ctx, at, day.Fleet)
			}
		} else {
			day.Fleet, err = store.Fleet(ctx, at, class)
		}
		if err != nil {
			return nil, err
		}
		days = append(days, day)
	}
	return days, nil
}

// keptDay returns what is kept of a day, or else adds it up.
func keptDay(
	ctx context.Context, store *history.Store, at []time.Time, class func(history.Key) string,
) (day history.Fleet, kept bool, err error) {
	if day, kept, err = store.KeptFleet(ctx, at); err == nil && !kept {
		day, err = store.Fleet(ctx, at, class)
	}
	return day, kept, err
}

// hoursOf are the bounds of the hours of a day; the last is short where a zone
// changes by half an hour.
func hoursOf(start, end time.Time) []time.Time {
	at := history.Steps(start, end, time.Hour)
	if last := at[len(at)-1]; last.Before(end) {
		at = append(at, end)
	}
	return at
}

// sumUp makes the view of the fleet from its days.
func (g *Generator) sumUp(
	ctx context.Context, now time.Time, b *board.Board, person func(string) string, days []*dayPast,
) (*render.FleetPast, error) {
	past := &render.FleetPast{AsOf: now}
	if len(days) > 0 {
		past.Since = days[0].Start
	}
	const quarter = 15 * time.Minute
	end := now.Truncate(quarter)
	at := history.Steps(end.Add(-24*time.Hour), end, quarter)
	last, err := g.opt.History.Fleet(ctx, at, modelsOf(b))
	if err != nil {
		return nil, err
	}
	today := []*dayPast{{Start: at[0], Fleet: last}}
	past.Spans[0] = render.FleetSpan{
		At: at, Steps: last.Steps, Free: last.Free, Held: last.Held, Coverage: coverageOf(today, at[0], end, b),
		People: mostOf(byPerson(last.People, person)),
	}

	zone := g.opt.About.Zone
	all := history.Days(now.In(zone).AddDate(0, 0, -364), now, zone)
	ago := func(days int) int { return max(0, len(all)-1-days) }
	for i, span := range []struct{ days, hours int }{{7, 1}, {30, 6}, {365, 25}} { // hours of one point
		from, first := ago(span.days), all[ago(span.days)]
		if span.days == 7 { // 168 hours, which begin within the day before
			from, first = ago(8), now.Truncate(time.Hour).Add(-167*time.Hour)
		}
		past.Spans[i+1] = foldDays(days, all[from:], first, now, span.hours, person)
		past.Spans[i+1].Coverage = coverageOf(days, all[ago(span.days)], now, b)
	}
	_, teams, _ := g.people() // what is wrong with them is said where bookings are read
	for i, n := range []int{1, 7, 30, 365} {
		past.Windows[i] = window(days, all[ago(n)], now, b, person, teams)
	}
	past.Heat = heat(days, all[ago(30)], now, g.opt.About.Zone)
	return past, nil
}

// foldDays makes steps of so many hours, which begin anew at every midnight. A
// day that nobody has seen is unknown.
func foldDays(
	days []*dayPast, midnights []time.Time, first, now time.Time, fold int, person func(string) string,
) render.FleetSpan {
	known := map[int64]*dayPast{}
	models := map[string]bool{}
	for _, d := range days {
		known[d.Start.Unix()] = d
		for name := range d.Free {
			models[name] = true
		}
	}
	span := render.FleetSpan{Free: map[string][]*float64{}, Held: map[string][]*float64{}}
	people := map[string][]float64{}
	var last time.Time
	for i := range midnights[:len(midnights)-1] {
		start, end := midnights[i], midnights[i+1]
		d := known[start.Unix()]
		var held map[string][]float64
		if d != nil {
			held = byPerson(d.People, person)
		}
		at := hoursOf(start, end)
		for h := 0; h < len(at)-1; h += fold {
			to := min(h+fold, len(at)-1)
			if at[h].Before(first) || now.Sub(at[h]) < minStep {
				continue
			}
			span.At = append(span.At, at[h].UTC())
			var step render.FleetStep
			if d != nil {
				step = meanStep(d.Steps[h:to])
			}
			for name, steps := range held {
				list := append(people[name], make([]float64, len(span.Steps)-len(people[name]))...)
				people[name] = append(list, meanHeld(d.Steps[h:to], steps[h:to]))
			}
			span.Steps = append(span.Steps, step)
			for name := range models {
				var free, used *float64
				if d != nil && d.Free[name] != nil {
					free, used = mean(d.Free[name][h:to]), mean(d.Held[name][h:to])
				}
				span.Free[name], span.Held[name] = append(span.Free[name], free), append(span.Held[name], used)
			}
			last = at[to]
		}
	}
	if len(span.At) > 0 {
		span.At = append(span.At, last.UTC())
	}
	for name, list := range people {
		people[name] = append(list, make([]float64, len(span.Steps)-len(list))...)
	}
	span.People = mostOf(people)
	return span
}

// byPerson adds up what the names of one person used.
func byPerson(held map[string][]float64, person func(string) string) map[string][]float64 {
	out := make(map[string][]float64, len(held))
	for _, name := range slices.Sorted(maps.Keys(held)) {
		who := person(name)
		if out[who] == nil {
			out[who] = make([]float64, len(held[name]))
		}
		for i, v := range held[name] {
			out[who][i] += v
		}
	}
	return out
}

// mostOf lists the people who are known and used most.
func mostOf(held map[string][]float64) (list []render.PersonSteps) {
	sums := map[string]float64{}
	for name, steps := range held {
		for _, v := range steps {
			sums[name] += v
		}
		if name != "" && sums[name] > 0 {
			list = append(list, render.PersonSteps{Name: name, Held: steps})
		}
	}
	slices.SortFunc(list, func(x, y render.PersonSteps) int {
		return cmp.Or(cmp.Compare(sums[y.Name], sums[x.Name]), cmp.Compare(x.Name, y.Name))
	})
	return list[:min(len(list), mostPeople)]
}

// meanHeld is what somebody held in the hours that are known.
func meanHeld(hours []render.FleetStep, held []float64) float64 {
	sum, n := 0.0, 0
	for i := range hours {
		if hours[i].Held != nil {
			sum, n = sum+held[i], n+1
		}
	}
	return sum / float64(max(n, 1))
}

func meanStep(hours []render.FleetStep) (step render.FleetStep) {
	for _, field := range []func(*render.FleetStep) **float64{
		func(s *render.FleetStep) **float64 { return &s.Reported },
		func(s *render.FleetStep) **float64 { return &s.Held },
		func(s *render.FleetStep) **float64 { return &s.Free },
		func(s *render.FleetStep) **float64 { return &s.Utilization },
		func(s *render.FleetStep) **float64 { return &s.Watts },
	} {
		list := make([]*float64, len(hours))
		for i := range hours {
			list[i] = *field(&hours[i])
		}
		*field(&step) = mean(list)
	}
	return step
}

// mean is that of what is known; nil when nothing is.
func mean(list []*float64) *float64 {
	sum, n := 0.0, 0
	for _, v := range list {
		if v != nil {
			sum, n = sum+*v, n+1
		}
	}
	if n == 0 {
		return nil
	}
	return new(sum / float64(n))
}

// window adds days up from a midnight on.
func window(
	days []*dayPast, from, now time.Time, b *board.Board, person func(string) string, teams map[string][]string,
) render.Window {
	w := render.Window{From: from.UTC(), To: now.UTC(), Coverage: coverageOf(days, from, now, b)}
	users, hosts := map[string]render.Use{}, map[string]*render.PastHost{}
	length := now.Sub(from).Seconds()
	for _, d := range days {
		if d.Start.Before(from) {
			continue
		}
		for i := range d.Users {
			name := person(d.Users[i].Name)
			users[name] = users[name].Add(d.Users[i].Use)
		}
		for i := range d.Hosts {
			t := &d.Hosts[i]
			h := hosts[t.Host]
			if h == nil {
				h = &render.PastHost{Name: t.Host}
				hosts[t.Host] = h
			}
			sum := t.Use
			sum.EnergyKWh = t.TotalEnergyKWh
			h.Use = h.Use.Add(sum)
			h.FreeHours, h.KnownHours = h.FreeHours+t.FreeHours, h.KnownHours+t.KnownHours
			h.Coverage += t.Covered / length
		}
	}
	w.Users = render.UsersOf(users)
	for name, members := range teams {
		team := render.UserPast{Name: name}
		for _, member := range members {
			team.Use = team.Use.Add(users[member])
		}
		w.Teams = append(w.Teams, team)
	}
	slices.SortFunc(w.Teams, func(x, y render.UserPast) int { return cmp.Compare(x.Name, y.Name) })
	for _, h := range hosts {
		h.Coverage = min(h.Coverage, 1)
		w.Hosts = append(w.Hosts, *h)
	}
	slices.SortFunc(w.Hosts, func(x, y render.PastHost) int { return cmp.Compare(x.Name, y.Name) })
	return w
}

// coverageOf is what was seen of all hosts since from: those that are expected
// now, and those that were there then.
func coverageOf(days []*dayPast, from, now time.Time, b *board.Board) float64 {
	hosts := map[string]bool{}
	for i := range b.Hosts {
		hosts[b.Hosts[i].Name] = true
	}
	sum := 0.0
	for _, d := range days {
		if d.Start.Before(from) {
			continue
		}
		for i := range d.Hosts {
			hosts[d.Hosts[i].Host] = true
			sum += d.Hosts[i].Covered
		}
	}
	if len(hosts) == 0 || !now.After(from) {
		return 0
	}
	return min(1, sum/float64(len(hosts))/now.Sub(from).Seconds())
}

// heat sums the hours up by weekday and hour of the site's clock.
func heat(days []*dayPast, from, now time.Time, zone *time.Location) (cells [7][24]render.HeatHour) {
	type sum struct{ held, known, util, utilKnown float64 }
	var sums [7][24]sum
	for _, d := range days {
		if d.Start.Before(from) {
			continue
		}
		at := hoursOf(d.Start, d.End)
		for i, s := range d.Steps {
			if !at[i].Before(now) {
				break
			}
			l := at[i].In(zone)
			c := &sums[l.Weekday()][l.Hour()]
			part := at[i+1].Sub(at[i]).Hours()
			if s.Held != nil && s.Free != nil {
				c.held, c.known = c.held+*s.Held*part, c.known+(*s.Held+*s.Free)*part
			}
			if s.Utilization != nil && s.Reported != nil {
				c.util, c.utilKnown = c.util+*s.Utilization**s.Reported*part, c.utilKnown+*s.Reported*part
			}
		}
	}
	for d := range sums {
		for h, s := range sums[d] {
			cells[d][h].KnownHours = s.known
			if s.known > 0 {
				cells[d][h].Held = new(100 * s.held / s.known)
			}
			if s.utilKnown > 0 {
				cells[d][h].Utilization = new(s.util / s.utilKnown)
			}
		}
	}
	return cells
}

// Usage adds up, as the site does, who used how much from the midnight before from on. Days are those of the site's
// zone; what is kept of a day is not added up again.
func Usage(ctx context.Context, o Options, from, to time.Time) (render.Window, error) {
	if err := o.complete(); err != nil {
		return render.Window{}, err
	}
	store, err := o.OpenHistory(ctx, to)
	if err != nil {
		return render.Window{}, err
	}
	defer store.Close()

	ends := history.Days(from, to, o.About.Zone)
	var days []*dayPast
	for i := range ends[:len(ends)-1] {
		fleet, _, err := keptDay(ctx, store, hoursOf(ends[i], ends[i+1]), func(history.Key) string { return "" })
		if err != nil {
			return render.Window{}, err
		}
		days = append(days, &dayPast{Start: ends[i], End: ends[i+1], Fleet: fleet})
	}
	aliases, teams, _ := (&Generator{opt: o}).people()
	who := board.Input{Person: aliases.Canonical, Settings: o.Settings}
	return window(days, ends[0], to, &board.Board{}, who.Who, teams), nil
}
