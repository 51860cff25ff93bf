package render

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"gpuboard/board"
	"gpuboard/snapshot"
	"gpuboard/templates"
)

// A drift is a board that changes at random, made anew for each generation, as a
// merge does.
type drift struct {
	hosts   int
	now     time.Time
	changes []func(b *board.Board) // of the hosts and their GPUs
	after   []func(b *board.Board) // of what follows from them
	past    *History
	site    Site
}

func (d *drift) input() Input {
	in := bigFleet(d.hosts)
	b := in.Board
	for _, change := range d.changes {
		change(b)
	}
	b.Bookings, b.NextFree = nil, nil
	for i := range b.Hosts {
		for j := range b.Hosts[i].GPUs {
			g := &b.Hosts[i].GPUs[j]
			if g.Booking == nil {
				continue
			}
			bk := *g.Booking
			bk.Expired = !bk.Until.IsZero() && !bk.Until.After(d.now)
			bk.Active = !bk.Expired && !bk.From.After(d.now)
			switch g.Booking = &bk; {
			case bk.Expired:
				g.Booking = nil
			case !bk.Active:
				g.Booking, g.Next = nil, &bk
			}
			if bk.Expired {
				b.Bookings = append(b.Bookings, bk)
			}
			if g.IdleSince.After(d.now) {
				g.IdleSince = time.Time{}
			}
		}
	}
	finish(b)
	for _, change := range d.after {
		change(b)
	}
	b.GeneratedAt = d.now
	in.History, in.Site = d.past, d.site
	return in
}

// happen lets something happen, and says what.
func (d *drift) happen(r *rand.Rand) string {
	of := func(f func(b *board.Board)) { d.changes = append(d.changes, f) }
	host, gpu, name, n := r.IntN(d.hosts), r.IntN(8), []string{"mira", "kai", "new", "x/y"}[r.IntN(4)], r.IntN(1000)
	on := func(f func(h *board.Host, g *board.GPU)) {
		of(func(b *board.Board) {
			if host < len(b.Hosts) && gpu < len(b.Hosts[host].GPUs) {
				f(&b.Hosts[host], &b.Hosts[host].GPUs[gpu])
			}
		})
	}
	now := d.now
	switch r.IntN(17) {
	case 0, 1, 2:
		wait := []time.Duration{time.Second, 20 * time.Second, time.Minute, 7 * time.Minute, 50 * time.Minute, 5 * time.Hour, 25 * time.Hour, 140 * time.Hour, 1000 * time.Hour}[r.IntN(9)]
		d.now = d.now.Add(wait)
		return wait.String() + " later"
	case 3, 4: // to the moment at which something is said otherwise, or the one beside it
		b := d.input().Board
		if len(b.Bookings) == 0 {
			return "nothing"
		}
		bk := b.Bookings[r.IntN(len(b.Bookings))]
		at := []time.Time{bk.From, bk.Until}[r.IntN(2)].Add([]time.Duration{0, -time.Hour, 6 * 24 * time.Hour, -6 * 24 * time.Hour, 180 * 24 * time.Hour, -180 * 24 * time.Hour}[r.IntN(6)] + time.Duration(r.IntN(3)-1))
		if !at.After(d.now) {
			return "nothing"
		}
		d.now = at
		return "at " + at.String()
	case 5:
		on(func(h *board.Host, g *board.GPU) { h.SnapshotAt, g.UUID = now, fmt.Sprint("GPU-", n%3) })
		return fmt.Sprint("news of host ", host)
	case 6:
		on(func(h *board.Host, g *board.GPU) {
			if len(g.Processes) > 0 {
				g.Processes[0].Person, g.Processes[0].User = name, name
			}
		})
		return fmt.Sprintf("%s is on %d:%d", name, host, gpu)
	case 7:
		on(func(h *board.Host, g *board.GPU) {
			g.Booking = booked(h.Name, []int{gpu}, name, now.Add(-time.Duration(n)*time.Minute), now.Add(time.Duration(n*n/50)*time.Minute), "**c**")
		})
		return fmt.Sprintf("%s books %d:%d", name, host, gpu)
	case 8:
		on(func(h *board.Host, g *board.GPU) { g.Booking = nil })
		return fmt.Sprintf("nobody books %d:%d", host, gpu)
	case 9:
		on(func(h *board.Host, g *board.GPU) {
			if g.Booking != nil {
				g.Booking.Line, g.Booking.Comment, g.Booking.By = n, fmt.Sprint("c", n%3), name
			}
		})
		return fmt.Sprintf("the booking of %d:%d is another", host, gpu)
	case 10:
		on(func(h *board.Host, g *board.GPU) { g.IdleSince = now.Add(-time.Duration(n) * time.Minute) })
		return fmt.Sprintf("%d:%d idles", host, gpu)
	case 11:
		on(func(h *board.Host, g *board.GPU) { g.State, g.Since = board.Stuck, now.Add(-time.Hour) })
		return fmt.Sprintf("%d:%d is stuck", host, gpu)
	case 12:
		of(func(b *board.Board) {
			if host < len(b.Hosts) && len(b.Hosts) > 3 {
				b.Hosts = slices.Delete(b.Hosts, host, host+1)
			}
		})
		return fmt.Sprintf("host %d is gone", host)
	case 13:
		d.after = append(d.after, func(b *board.Board) {
			b.Hosts = append(b.Hosts, board.Host{Name: fmt.Sprintf("gpu%03d-%d", host, gpu), State: board.Never, Address: "10.0.0.1"})
			for i := range b.Users {
				b.Users[i].Mean24h = ptr(float64(n % (i + 2)))
			}
		})
		return "a host that takes the id of a row"
	case 14:
		d.after = append(d.after, func(b *board.Board) {
			b.Problems = append(b.Problems, snapshot.Problem{Code: "booking:overlap", Message: fmt.Sprint("message ", n), Line: n})
			b.BookingsStaleSince = now
		})
		return "a problem"
	case 15:
		h := *d.past
		f := *h.Fleet
		f.AsOf = now
		for i := range f.Windows {
			w := &f.Windows[i]
			w.Users = slices.Clone(w.Users)
			for j := range w.Users {
				w.Users[j].GPUHours += float64(n)
			}
		}
		h.Fleet = &f
		if past := h.Hosts[fmt.Sprintf("gpu%03d", host)]; past != nil {
			p := *past
			p.Spans[1].From = p.Spans[1].From.Add(time.Hour)
			h.Hosts = map[string]*HostPast{}
			for name, was := range d.past.Hosts {
				h.Hosts[name] = was
			}
			h.Hosts[fmt.Sprintf("gpu%03d", host)] = &p
		}
		d.past = &h
		return "the past goes on"
	default:
		d.site.Lab = fmt.Sprint("lab ", n%2)
		return "the site has another name"
	}
}

// TestWhatIsKeptIsWhatIsMade lets anything happen to a board, and wants every file
// made with a cache to be the one that is made without.
func TestWhatIsKeptIsWhatIsMade(t *testing.T) {
	for _, c := range []struct{ hosts, steps int }{{5, 150}, {30, 5}} {
		r := rand.New(rand.NewPCG(uint64(c.hosts), 11))
		d := &drift{hosts: c.hosts, now: fleetNow, site: Site{Zone: time.UTC, Version: "1.0.0"}}
		if c.hosts == 30 { // one person has more GPUs than a page lists
			d.changes = append(d.changes, func(b *board.Board) {
				for i := range b.Hosts {
					for j := range b.Hosts[i].GPUs {
						for k := range b.Hosts[i].GPUs[j].Processes {
							b.Hosts[i].GPUs[j].Processes[k].Person = "mira"
						}
					}
				}
			})
		}
		d.past = remembered(bigFleet(c.hosts)).History
		cache := &Cache{}
		for step := range c.steps {
			var what []string
			if c.hosts == 30 && step == 2 {
				d.changes = append(d.changes, func(b *board.Board) {
					g := &b.Hosts[29].GPUs[7]
					process(g, 7, "mira", "late.py", 100, fleetNow)
				})
			}
			for range r.IntN(3) {
				what = append(what, d.happen(r))
			}
			want, got := madeOf(t, d.input(), nil), madeOf(t, d.input(), cache)
			for name, content := range want {
				if got[name] != content {
					t.Errorf("step %d, %s: %s: %s", step, strings.Join(what, ", "), name, firstDifference(content, got[name]))
				}
			}
			if len(got) != len(want) {
				t.Errorf("step %d, %s: %d files, want %d", step, strings.Join(what, ", "), len(got), len(want))
			}
			if t.Failed() {
				return
			}
		}
	}
}

func madeOf(t *testing.T, in Input, cache *Cache) map[string]string {
	t.Helper()
	in.Cache = cache
	all := map[string]string{}
	for _, make := range []func(Input) ([]File, error){
		func(in Input) ([]File, error) { return Pages(in, templates.Files()) }, Data,
	} {
		files, err := make(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all[f.Path] = string(f.Bytes())
		}
	}
	return all
}

// TestPeopleAreKept: what has not changed is not made again.
func TestPeopleAreKept(t *testing.T) {
	d := &drift{hosts: 5, now: fleetNow, site: Site{Zone: time.UTC}, past: remembered(bigFleet(5)).History}
	cache := &Cache{}
	madeOf(t, d.input(), cache)
	before, bookings, past := cache.kept.users, cache.kept.bookings, cache.kept.past
	d.now = d.now.Add(time.Second)
	d.changes = append(d.changes, func(b *board.Board) { *b.Hosts[0].GPUs[1].UtilizationGPU = 77 })
	in := d.input()
	madeOf(t, in, cache)
	if cache.kept.bookings != bookings || !sameList(cache.kept.past.tabs, past.tabs) {
		t.Error("bookings or the past were made again")
	}
	concerned := map[string]bool{}
	g := &in.Board.Hosts[0].GPUs
	for i := range *g {
		for _, p := range (*g)[i].Processes {
			concerned[p.Person] = true
		}
		if b := (*g)[i].Booking; b != nil {
			concerned[b.Name] = true
		}
	}
	for name, u := range cache.kept.users {
		if (u == before[name]) == concerned[name] {
			t.Errorf("%s has to do with the host that changed: %t, and the page was made again: %t", name, concerned[name], u != before[name])
		}
	}
	if len(concerned) == 0 || len(concerned) == len(before) {
		t.Errorf("%d of %d people have to do with the host that changed", len(concerned), len(before))
	}
}

// TestOwnIconIsSeen: a site's own files are read in every generation.
func TestOwnIconIsSeen(t *testing.T) {
	in := fleets()["bare"]
	in.Cache = &Cache{}
	for _, icon := range []string{"<svg/>", "<svg></svg>"} {
		own := afero.NewMemMapFs()
		if err := afero.WriteFile(own, "favicon.svg", []byte(icon), 0o644); err != nil {
			t.Fatal(err)
		}
		files, err := Pages(in, templates.Under(own))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(fileOf(t, files, "favicon.svg").Bytes()); got != icon {
			t.Errorf("the icon is %s, want %s", got, icon)
		}
	}
}

// TestWhatIsSaidStands: until the moment that the clock notes, the same is said.
func TestWhatIsSaidStands(t *testing.T) {
	v := &view{words: englishWords(t), in: Input{Board: &board.Board{}}}
	v.words.zone = time.UTC
	const day = 24 * time.Hour
	for what, say := range map[string]func(v *view, at time.Time) string{
		"near": func(v *view, at time.Time) string { return v.words.near(fleetNow, at).Text },
		"soon": func(v *view, at time.Time) string {
			return fmt.Sprint(v.soon(&board.Booking{Active: true, Until: fleetNow}))
		},
		"length": func(v *view, at time.Time) string { return v.words.length(at.Sub(fleetNow.Add(-400 * day))) },
	} {
		said := func(at time.Time) (string, time.Time) {
			v.in.Board.GeneratedAt = at
			u, c := v.timed()
			return say(u, at), c.until
		}
		changes := 0
		for _, edge := range []time.Duration{-300 * day, -180 * day, -6 * day, -time.Hour, 0, time.Hour, 6 * day, 180 * day, -400*day + time.Minute, -400*day + time.Hour, -400*day + 48*time.Hour} {
			for _, beside := range []time.Duration{-time.Second, -1, 0, 1, time.Second} {
				at := fleetNow.Add(edge + beside)
				text, until := said(at)
				last := at.Add(1000 * day)
				if !until.IsZero() {
					last = until.Add(-1)
					if after, _ := said(until); after != text {
						changes++
					}
				}
				for _, then := range []time.Time{at.Add(last.Sub(at) / 2), last} {
					if got, _ := said(then); got != text && !then.Before(at) {
						t.Errorf("%s at %v is %q until %v, and %q at %v", what, at, text, until, got, then)
					}
				}
			}
		}
		if changes == 0 {
			t.Errorf("%s: nothing was said otherwise at its time", what)
		}
	}
}

// TestSameBooking changes every value of a booking once.
func TestSameBooking(t *testing.T) {
	x := board.Booking{GPUs: []int{1}}
	for i := range reflect.TypeFor[board.Booking]().NumField() {
		y := x
		switch f := reflect.ValueOf(&y).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(7)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]int{2}))
		default:
			f.Set(reflect.ValueOf(fleetNow))
		}
		if sameBooking(x, y) || !sameBooking(y, y) {
			t.Errorf("another %s makes no other booking", reflect.TypeFor[board.Booking]().Field(i).Name)
		}
	}
}
