package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// Settled is how long an XID or heat must have been away before another one is a new occasion: both come and go.
const Settled = time.Hour

// An Occasion is something about a GPU that people are told of once. They are told at the second board that shows it:
// then its beginning is remembered, and an event that is found again after a crash has the same ID.
type Occasion struct {
	// Seen is the last snapshot that showed it.
	Seen time.Time `json:"seen,omitzero"`
	// People are those whom it concerns, and "" for what concerns no person.
	People map[string]Telling `json:"people,omitempty"`
}

// A Telling is since when an occasion concerns somebody, and whether they were told.
type Telling struct {
	Since time.Time `json:"since"`
	Told  bool      `json:"told,omitempty"`
}

// told are the people who were told, in order of name.
func (o Occasion) told() (people []string) {
	for _, who := range slices.Sorted(maps.Keys(o.People)) {
		if who != "" && o.People[who].Told {
			people = append(people, who)
		}
	}
	return people
}

// A row is a GPU or slice in a snapshot that speaks about now.
type row struct {
	*diff
	host *board.Host
	gpu  *board.GPU
	is   *GPUMemory
}

// occasions reports what is new of the occasions of a GPU, and continues those that go on. Only people who use the
// GPU for certain, or have booked it, are told.
func (r *row) occasions(was GPUMemory) {
	h, g := r.host, r.gpu
	for kind, o := range was.Occasions {
		r.is.Occasions[kind] = Occasion{o.Seen, maps.Clone(o.People)}
	}
	if len(g.Slices) == 0 && g.ProcessesUnknown == "" && g.State != board.Lost {
		r.contested()
		r.idle()
	}
	if g.Slice == nil {
		r.fault(GPUXID, "", xid(h, g))
		hot := ""
		if g.Hot() {
			hot = "is slowed down because it is too hot"
			if g.Temperature != nil {
				hot += fmt.Sprintf(" (%d °C)", *g.Temperature)
			}
		}
		r.fault(GPUHot, GPUHotEnd, hot)
	}
}

// xid returns what the host says of an error of the driver that it counts as a problem of the GPU.
func xid(h *board.Host, g *board.GPU) string {
	for _, p := range h.Problems {
		if p.Code == "gpu:xid" && p.GPU != nil && *p.GPU == g.Index {
			return "has an error of its driver: " + p.Message
		}
	}
	return ""
}

// say emits an event about the row.
func (r *row) say(kind Kind, cause time.Time, users []string, summary, command string) {
	summary = name(r.host, r.gpu) + " " + summary
	if len(summary)+len(command) <= maxText {
		summary += command // one that is cut would do something else
	}
	r.emit(Event{Kind: kind, Host: r.host.Name, GPU: new(r.gpu.Index), UUID: r.gpu.UUID, At: r.host.SnapshotAt,
		Users: users, Summary: summary}, cause)
}

// set remembers when somebody's part of an occasion began, and forgets the oldest of too many.
func (r *row) set(kind Kind, who string, t Telling) {
	o := r.is.Occasions[kind]
	if o.People == nil {
		o.People = map[string]Telling{}
	}
	o.People[who] = t
	for len(o.People) > maxUsers+1 {
		delete(o.People, slices.MinFunc(slices.Collect(maps.Keys(o.People)), func(a, b string) int {
			return cmp.Or(o.People[a].Since.Compare(o.People[b].Since), strings.Compare(a, b))
		}))
	}
	r.is.Occasions[kind] = o
}

// due notes that an occasion concerns somebody, and reports whether and since when they are to be told now.
func (r *row) due(kind Kind, who string) (since time.Time, now bool) {
	t, seen := r.is.Occasions[kind].People[who]
	if !seen {
		r.set(kind, who, Telling{r.host.SnapshotAt, r.first})
		return t.Since, false
	}
	r.set(kind, who, Telling{t.Since, true})
	return t.Since, !t.Told
}

// seen notes that the snapshot shows an occasion.
func (r *row) seen(kind Kind) {
	o := r.is.Occasions[kind]
	o.Seen = r.host.SnapshotAt
	r.is.Occasions[kind] = o
}

// over reports an occasion that has been away for a while to those who were told of it, and forgets it.
func (r *row) over(kind, end Kind, while time.Duration, what string) {
	o, going := r.is.Occasions[kind]
	if !going || r.host.SnapshotAt.Sub(o.Seen) < while {
		return
	}
	delete(r.is.Occasions, kind)
	if told := o.told(); end != "" && (len(told) > 0 || o.People[""].Told) {
		r.say(end, o.Seen, told, what, "")
	}
}

// fault reports a fault of the card, also to the people who use it. what is "" where there is none.
func (r *row) fault(kind, end Kind, what string) {
	if what == "" {
		r.over(kind, end, Settled, "is not too hot any more")
		return
	}
	r.seen(kind)
	since, now := r.due(kind, "")
	if !now {
		return
	}
	users := r.gpu.Users()
	for i := range r.gpu.Slices {
		users = append(users, r.gpu.Slices[i].Users()...)
	}
	slices.Sort(users)
	users = named(slices.Compact(users), nil)
	for _, who := range users {
		r.set(kind, who, Telling{since, true})
	}
	r.say(kind, since, users, what, "")
}

// contested tells those who use a GPU that others have booked, and those others.
func (r *row) contested() {
	g := r.gpu
	if g.State != board.Contested {
		r.over(GPUContested, GPUContestedEnd, FreeAfter, "is not contested any more")
		return
	}
	r.seen(GPUContested)
	bookers := g.Bookers()
	guests := slices.DeleteFunc(g.Users(), func(who string) bool {
		return slices.ContainsFunc(bookers, func(b string) bool { return strings.EqualFold(b, who) })
	})
	if len(guests) == 0 || g.MoreOthers > 0 {
		return // one of the bookings that the board does not list may be theirs
	}
	what := "is booked by " + few(bookers) + " and used by " + few(guests)
	tell := func(people []string, command func(string) string) {
		for _, who := range people {
			if since, now := r.due(GPUContested, who); now {
				r.say(GPUContested, since, []string{who}, what, command(who))
			}
		}
	}
	tell(guests, r.kill)
	tell(bookers, r.release)
}

// idle tells those who hold a GPU that has been idle for long. For how long the board knows; a gap is no idleness.
func (r *row) idle() {
	g := r.gpu
	users := g.Users()
	if g.State == board.Free || g.State == board.Booked {
		delete(r.is.Occasions, GPUIdle) // whoever comes back comes with another program
	}
	// Whoever was told and is not certain for a while is not told again.
	maps.DeleteFunc(r.is.Occasions[GPUIdle].People, func(who string, t Telling) bool {
		return !t.Told && !slices.Contains(users, who)
	})
	for _, who := range users {
		begun := r.begun(who)
		idle := time.Duration(0)
		if !g.IdleSince.IsZero() && !begun.IsZero() {
			idle = min(r.now.GeneratedAt.Sub(g.IdleSince), r.now.GeneratedAt.Sub(begun))
		}
		t, seen := r.is.Occasions[GPUIdle].People[who]
		works := g.IdleSince.IsZero() && g.Works()
		switch {
		case !seen || works || t.Since.Before(begun):
			r.set(GPUIdle, who, Telling{r.host.SnapshotAt, r.first && idle >= r.now.IdleNotice})
		case !t.Told && r.now.IdleNotice > 0 && idle >= r.now.IdleNotice:
			r.set(GPUIdle, who, Telling{t.Since, true})
			what := "is held by " + who + " and has been idle for " + snapshot.Length(idle.Truncate(time.Minute))
			r.say(GPUIdle, t.Since, []string{who}, what, r.kill(who)+r.release(who))
		}
	}
}

// begun is when the first of a person's programs on the GPU began; zero where that is not known.
func (r *row) begun(who string) (first time.Time) {
	for _, p := range r.gpu.Computing() {
		if p.Person == who && p.StartedAt != nil && (first.IsZero() || p.StartedAt.Before(first)) {
			first = p.StartedAt.Time
		}
	}
	return first
}

// kill is the command that ends a person's programs on the GPU; "" where they may not be able to end one that way.
func (r *row) kill(who string) string {
	host := r.host.Address
	if host == "" || strings.HasPrefix(host, "-") || strings.Contains(host, ":") {
		return "" // ssh would read an option, or a port as a part of the name
	}
	command := []string{"ssh", host, "kill"}
	for _, p := range r.gpu.Computing() {
		if p.Person != who {
			continue
		}
		if p.Container != "" || p.By != nil {
			return ""
		}
		command = append(command, strconv.Itoa(p.PID))
	}
	return "; to end the program: " + shell.Join(command...)
}

// release is the command that ends a person's booking of the GPU; "" where there is none.
func (r *row) release(who string) string {
	for _, b := range append([]board.Booking{*cmp.Or(r.gpu.Booking, &board.Booking{})}, r.gpu.Others...) {
		if b.ID != "" && strings.EqualFold(b.Name, who) {
			return "; to end the booking: " + release(&b)
		}
	}
	return ""
}

// release is the command that ends a booking that is in force.
func release(b *board.Booking) string {
	where := b.Host
	switch {
	case len(b.GPUs) == 1 && b.Slice == nil:
		where += ":" + strconv.Itoa(b.GPUs[0])
	case b.UUID != "":
		where += ":" + b.UUID
	}
	return shell.Join("gpuboard", "release", where, "--name", b.Name)
}

// few names the first people of a list.
func few(people []string) string {
	const most = 3
	if more := len(people) - most; more > 0 {
		return strings.Join(people[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(people, ", ")
}
