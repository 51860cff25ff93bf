package board

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"gpuboard/snapshot"
)

// UserPrivacy says how people are named.
type UserPrivacy string

// The values of UserPrivacy; "" is UsersFull.
const (
	UsersFull     UserPrivacy = "full"
	UsersInitials UserPrivacy = "initials" // "Eva Marsh" is "E.M.", emarsh is "e."
	UsersHash     UserPrivacy = "hash"     // a name of its own for each person, which says nothing
	UsersNone     UserPrivacy = "none"     // Someone for all
)

// ProgramPrivacy says whether programs are named.
type ProgramPrivacy string

// The values of ProgramPrivacy; "" is ProgramsShown.
const (
	ProgramsShown  ProgramPrivacy = "program"
	ProgramsHidden ProgramPrivacy = "none"
)

// Someone stands for everybody where nobody is named.
const Someone = "someone"

// A Privacy is how much of people a site shows.
type Privacy struct {
	Users    UserPrivacy
	Programs ProgramPrivacy
	// Salt makes the names of UsersHash this site's own. Without it, whoever
	// has a list of names can find out whose they are.
	Salt []byte
}

// Mask returns the board as a site with this privacy shows it: everything that
// names a person or a program is replaced, wherever it stands. With people not
// named in full, what they wrote (comments, and problems that quote the
// bookings file) and the addresses of hosts are left out too. States were
// decided before, and stay. The board itself is not changed.
func (b *Board) Mask(p Privacy) *Board {
	people := p.Users != "" && p.Users != UsersFull
	programs := p.Programs == ProgramsHidden
	if !people && !programs {
		return b
	}
	m := masker{Privacy: p, people: people, programs: programs}
	out := *b
	out.Hosts = make([]Host, len(b.Hosts))
	for i, h := range b.Hosts {
		out.Hosts[i] = m.host(h)
	}
	out.Users = m.users(b.Users)
	out.Bookings = m.bookings(b.Bookings)
	out.Problems = m.problems(b.Problems)
	if b.NextFree != nil {
		next := *b.NextFree
		next.By = m.name(next.By)
		out.NextFree = &next
	}
	return &out
}

// Name is how a person is called.
func (p Privacy) Name(s string) string {
	m := masker{Privacy: p, people: p.Users != "" && p.Users != UsersFull}
	return m.name(s)
}

type masker struct {
	Privacy
	people, programs bool
}

func (m *masker) name(s string) string {
	if s == "" || !m.people {
		return s
	}
	switch m.Users {
	case UsersInitials:
		return initials(s)
	case UsersHash:
		mac := hmac.New(sha256.New, m.Salt)
		mac.Write([]byte(strings.ToLower(s)))
		return "user-" + hex.EncodeToString(mac.Sum(nil)[:4])
	default:
		return Someone
	}
}

func initials(s string) string {
	out := ""
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" .-_@\\", r) }) {
		r, _ := utf8.DecodeRuneInString(word)
		out += string(r) + "."
		if len(out) > 12 {
			break
		}
	}
	return out
}

func (m *masker) host(h Host) Host {
	if m.people {
		h.Node.Interfaces = nil
		h.Node.DiskUsers = nil
	}
	h.Problems = m.problems(h.Problems)
	gpus := make([]GPU, len(h.GPUs))
	for i, g := range h.GPUs {
		procs := make([]Process, len(g.Processes))
		for j, p := range g.Processes {
			procs[j] = m.process(p)
		}
		g.Processes = procs
		g.Booking, g.Next = m.bookingAt(g.Booking), m.bookingAt(g.Next)
		g.Others = m.bookings(g.Others)
		if g.Last != nil {
			last := *g.Last
			last.Users = nil
			for _, u := range g.Last.Users {
				last.Users = append(last.Users, m.name(u))
			}
			last.Users = slices.Compact(last.Users)
			g.Last = &last
		}
		gpus[i] = g
	}
	h.GPUs = gpus
	return h
}

func (m *masker) process(p Process) Process {
	p.Person, p.User = m.name(p.Person), m.name(p.User)
	if m.people {
		p.UID, p.Container = nil, ""
	}
	if m.programs {
		p.Program = ""
	}
	children := make([]snapshot.Child, len(p.Children))
	for i, c := range p.Children {
		c.User = m.name(c.User)
		if m.programs {
			c.Program = ""
		}
		children[i] = c
	}
	p.Children = children
	return p
}

func (m *masker) bookingAt(b *Booking) *Booking {
	if b == nil {
		return nil
	}
	masked := m.booking(*b)
	return &masked
}

func (m *masker) bookings(list []Booking) []Booking {
	out := make([]Booking, len(list))
	for i, b := range list {
		out[i] = m.booking(b)
	}
	return out
}

func (m *masker) booking(b Booking) Booking {
	b.Name, b.By = m.name(b.Name), m.name(b.By)
	if m.people {
		b.Comment = ""
	}
	return b
}

// problems keeps code and place. The words of those about bookings quote the
// file, and with it people.
func (m *masker) problems(list []snapshot.Problem) []snapshot.Problem {
	out := make([]snapshot.Problem, len(list))
	for i, p := range list {
		if m.people && (strings.HasPrefix(p.Code, "booking:") || strings.HasPrefix(p.Code, "aliases:")) {
			p.Message = p.Code
		}
		out[i] = p
	}
	return out
}

// users adds up those who are one after masking.
func (m *masker) users(list []User) []User {
	if !m.people {
		return list
	}
	var out []User
	at := map[string]int{}
	for _, u := range list {
		u.Name = m.name(u.Name)
		u.Where = cloneWhere(u.Where)
		i, known := at[u.Name]
		if !known {
			at[u.Name] = len(out)
			out = append(out, u)
			continue
		}
		have := &out[i]
		have.Reserved += u.Reserved
		have.Used += u.Used
		have.Memory += u.Memory
		have.Processes += u.Processes
		have.IdleGPUs += u.IdleGPUs
		have.Mean2h, have.Mean24h, have.Mean1w = sum(have.Mean2h, u.Mean2h), sum(have.Mean24h, u.Mean24h), sum(have.Mean1w, u.Mean1w)
		have.Where = mergeWhere(have.Where, u.Where)
	}
	return out
}

func sum(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return new(*a + *b)
	}
}

func cloneWhere(list []UserHost) []UserHost {
	out := make([]UserHost, len(list))
	for i, w := range list {
		out[i] = UserHost{Host: w.Host, GPUs: slices.Clone(w.GPUs)}
	}
	return out
}

func mergeWhere(a, b []UserHost) []UserHost {
	for _, w := range b {
		i := slices.IndexFunc(a, func(x UserHost) bool { return x.Host == w.Host })
		if i < 0 {
			a = append(a, w)
			continue
		}
		a[i].GPUs = append(a[i].GPUs, w.GPUs...)
		slices.Sort(a[i].GPUs)
		a[i].GPUs = slices.Compact(a[i].GPUs)
	}
	slices.SortStableFunc(a, func(x, y UserHost) int { return NaturalCompare(x.Host, y.Host) })
	return a
}
