package board

import (
	"slices"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// Owner returns whose the process is: a person, somebody who is likely a person, or an unknown user.
func (p *Process) Owner() snapshot.Owner {
	if p.Person != "" || p.Likely != "" {
		return snapshot.Owner{Person: p.Person, Likely: p.Likely}
	}
	return p.Unknown()
}

// setBy sets by what the owner of the process is known. The account of a person is that person's, whatever it runs as.
func (p *Process) setBy(of snapshot.Owner, by []snapshot.Claim) {
	switch {
	case of.Login() == "":
		p.By = by
	case p.Person == "" && p.Likely == "":
	case by[0].Source != snapshot.ByOwner:
		p.By = by[:1]
		if p.Person != "" {
			p.User, p.UID = of.Login(), nil
		}
	}
}

// Of reports whether the process is for certain somebody's who has this name. An unknown user has that of
// the account, unless the account is a container's or has no name.
func (p *Process) Of(named func(string) bool) bool {
	if p.Person == "" && (p.Container != "" || p.BareUID()) {
		return false
	}
	return p.Person != "" && named(p.Person) || p.User != "" && named(p.User)
}

// Computing returns the processes that use the GPU, in the order of Processes.
func (g *GPU) Computing() []*Process {
	return g.which(func(p *Process) bool { return p.Computes })
}

func (g *GPU) which(which func(*Process) bool) (list []*Process) {
	for i := range g.Processes {
		if which(&g.Processes[i]) {
			list = append(list, &g.Processes[i])
		}
	}
	return list
}

// Programs returns the names of the programs that use the GPU, each once, in the order of Processes.
func (g *GPU) Programs() []string {
	var names []string
	for _, p := range g.Computing() {
		if p.Program != "" && !slices.Contains(names, p.Program) {
			names = append(names, p.Program)
		}
	}
	return names
}

// Owners returns whose the processes that use the GPU are, each once: people and unknown users. Somebody
// uses a GPU that is in use, also where no process is known.
func (g *GPU) Owners() []snapshot.Owner {
	owners := ownersOf(g.Computing())
	if len(owners) == 0 && len(g.Slices) == 0 && (g.State == Busy || g.State == InUse) {
		return []snapshot.Owner{{}}
	}
	return owners
}

// Users returns the people who use the GPU for certain, in order of name.
func (g *GPU) Users() []string { return PeopleOf(g.Owners()) }

// PeopleOf returns the people among owners, in order of name.
func PeopleOf(owners []snapshot.Owner) []string {
	return sorted(owners, func(o snapshot.Owner) string { return o.Person })
}

func sorted(owners []snapshot.Owner, name func(snapshot.Owner) string) []string {
	var names []string
	for _, o := range owners {
		if name(o) != "" {
			names = append(names, name(o))
		}
	}
	slices.Sort(names)
	return names
}

// Unknown returns the unknown users of the GPU.
func (g *GPU) Unknown() []snapshot.Owner {
	return slices.DeleteFunc(g.Owners(), func(o snapshot.Owner) bool { return o.Name() != "" })
}

// Likely returns the people who likely use the GPU, in order of name.
func (g *GPU) Likely() []string {
	return sorted(g.Owners(), func(o snapshot.Owner) string { return o.Likely })
}

// Left returns whose dead processes hold the memory of a GPU that is stuck. They do not use it any more.
func (g *GPU) Left() []snapshot.Owner {
	if g.State != Stuck {
		return nil
	}
	return ownersOf(g.Holding())
}

// Holding returns the processes that use the GPU or, if it is stuck, the dead ones whose memory it holds.
func (g *GPU) Holding() []*Process {
	if g.State == Stuck {
		return g.which((*Process).Dead)
	}
	return g.Computing()
}

// Of reports whether somebody who has this name, also as a login, uses the GPU, left its memory, or has
// booked it. An unknown user has no name.
func (g *GPU) Of(named func(string) bool) bool {
	return slices.ContainsFunc(g.Holding(), func(p *Process) bool {
		return p.Person != "" && (named(p.Person) || named(p.User)) || p.Likely != "" && named(p.Likely)
	}) || g.Booking != nil && named(g.Booking.Name) ||
		slices.ContainsFunc(g.Others, func(b Booking) bool { return named(b.Name) })
}

// lastSeen returns what is known of the GPU now, to be shown when it is unknown later.
func (g *GPU) lastSeen(at time.Time) *LastSeen {
	return &LastSeen{State: g.State, Users: PeopleOf(ownersOf(g.Holding())), At: at}
}

func ownersOf(list []*Process) []snapshot.Owner {
	var owners []snapshot.Owner
	seen := map[snapshot.Owner]bool{}
	for _, p := range list {
		if o := p.Owner(); !seen[o] {
			seen[o] = true
			owners = append(owners, o)
		}
	}
	return owners
}

// Jobs returns what others run on the GPUs of a booking, one for each process. Mine reports whether a name is
// that of the person who books. A GPU whose use is unknown counts, too.
func (b *Board) Jobs(of booking.Booking, mine func(string) bool) []booking.Job {
	var jobs []booking.Job
	for h, g := range b.Units() {
		if h.Name == of.Host && g.CoveredBy(of.Target) {
			jobs = append(jobs, jobsOn(h, g, mine)...)
		}
	}
	return jobs
}

func jobsOn(h *Host, g *GPU, mine func(string) bool) []booking.Job {
	place := Unit{h, g}.String()
	switch g.State {
	case Unknown:
		return []booking.Job{{Place: place, Unknown: true}}
	case Busy, InUse, Contested:
	default:
		return nil
	}
	var jobs []booking.Job
	own := false
	for _, p := range g.Computing() {
		if p.Of(mine) {
			own = true
			continue
		}
		j := booking.Job{Place: place, Who: p.Owner(), Program: p.Program, PID: p.PID, Memory: orZero(p.UsedMemory)}
		if p.StartedAt != nil {
			j.Since = p.StartedAt.Time
		}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 && !own && !(g.State == InUse && g.Booking != nil && mine(g.Booking.Name)) {
		jobs = append(jobs, booking.Job{Place: place})
	}
	return jobs
}
