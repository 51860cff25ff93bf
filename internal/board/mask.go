package board

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
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

// MasksPeople reports whether people are not named in full.
func (p Privacy) MasksPeople() bool { return p.Users != "" && p.Users != UsersFull }

// Mask returns the board as a site with this privacy shows it. With people not
// named in full, it is an allow-list: a host keeps its name, title, group, state,
// times, load and memory; a GPU its model, identity and readings; a booking its
// times; a problem its code. Everything else stays unpublished: addresses, owner,
// note, tags, mount paths, comments, and the words of messages. States were decided
// before, and stay. The board itself is not changed.
func (b *Board) Mask(p Privacy) *Board {
	if !p.MasksPeople() && p.Programs != ProgramsHidden {
		return b
	}
	m := masker{p, map[string]bool{}}
	for i := range b.Hosts {
		m.hosts[b.Hosts[i].Name] = true
	}
	out := *b
	out.Hosts = each(b.Hosts, m.host)
	out.Users = m.users(b.Users)
	out.Bookings = m.bookings(b.Bookings)
	out.Problems = m.problems(b.Problems)
	out.FreeNow, out.NextFree = freeNow(out.Hosts), nextFree(out.Hosts)
	if m.MasksPeople() {
		out.Colors = nil
	}
	return &out
}

// Name is how a person is called.
func (p Privacy) Name(s string) string {
	switch {
	case s == "" || s == booking.Unreadable || !p.MasksPeople():
		return s
	case p.Users == UsersInitials:
		return initials(s)
	case p.Users == UsersHash:
		return "user-" + p.hash(strings.ToLower(s))[:8]
	}
	return Someone
}

type masker struct {
	Privacy
	hosts map[string]bool // on the board
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

// host is one host; with people masked, only what is named here.
func (m *masker) host(h Host) Host {
	out := h
	if m.MasksPeople() {
		n := h.Node
		out = Host{
			Name: h.Name, Title: h.Title, Group: h.Group, State: h.State, Check: h.Check, SnapshotAt: h.SnapshotAt,
			ClockOffset: h.ClockOffset, GoneSince: h.GoneSince, Interval: h.Interval, Pulled: h.Pulled,
			Driver: h.Driver, CUDA: h.CUDA,
			Tools: h.Tools,
			Node: snapshot.Node{
				UptimeSeconds: n.UptimeSeconds, Cores: n.Cores, Load1: n.Load1, Load5: n.Load5, Load15: n.Load15,
				MemoryTotal: n.MemoryTotal, MemoryUsed: n.MemoryUsed,
			},
			Totals: h.Totals, Models: h.Models,
		}
	}
	out.Problems = m.problems(h.Problems)
	out.GPUs = each(h.GPUs, m.gpu)
	return out
}

// each returns a new list with what f makes of each.
func each[T any](list []T, f func(T) T) []T {
	out := slices.Clone(list)
	for i := range out {
		out[i] = f(out[i])
	}
	return out
}

func (m *masker) gpu(g GPU) GPU {
	out := g
	if m.MasksPeople() {
		out = GPU{
			GPU: m.device(g.GPU), ShortName: g.ShortName, State: g.State, Reason: g.Reason, Missing: g.Missing,
			CountedAt: g.CountedAt, Since: g.Since, IdleSince: g.IdleSince, NoShow: g.NoShow, FreeFrom: g.FreeFrom,
			FreeUntil: g.FreeUntil, Utilization: g.Utilization, Slice: g.Slice,
		}
		if m.Users != UsersNone {
			out.Holders = renamed(g.Holders, m.Name)
		}
	}
	out.Slices = each(g.Slices, m.gpu)
	out.Processes = each(g.Processes, m.process)
	out.Booking, out.Next = m.bookingAt(g.Booking), m.bookingAt(g.Next)
	out.Others = m.bookings(g.Others)
	if g.Last != nil {
		users := slices.Compact(each(g.Last.Users, m.Name))
		out.Last = &LastSeen{State: g.Last.State, Users: users, At: g.Last.At}
	}
	return out
}

// device keeps a GPU's identity and readings, without the driver's words and the place in the machine.
func (m *masker) device(g snapshot.GPU) snapshot.GPU {
	out := snapshot.GPU{
		Index: g.Index, Vendor: g.Vendor, UUID: g.UUID, Name: g.Name, MemoryTotal: g.MemoryTotal,
		MemoryUsed: g.MemoryUsed,
		MemoryFree: g.MemoryFree, MemoryShared: g.MemoryShared, Readings: g.Readings, PState: g.PState,
		ThrottleReasons: g.ThrottleReasons, ECC: g.ECC, RetiredPages: g.RetiredPages, RemappedRows: g.RemappedRows,
		MIGMode: g.MIGMode, MIGDevices: g.MIGDevices, Health: g.Health, XID: g.XID,
	}
	if g.ProcessesUnknown != "" {
		out.ProcessesUnknown = "not known"
	}
	return out
}

func (m *masker) process(p Process) Process {
	out := p
	if m.MasksPeople() {
		user := ""
		if p.Person != "" {
			user = p.User
		}
		out = Process{Process: snapshot.Process{
			GPU: p.GPU, GPUUUID: p.GPUUUID, PID: p.PID, Type: p.Type, User: m.Name(user), Program: p.Program,
			StartedAt: p.StartedAt, UsedMemory: p.UsedMemory, Alive: p.Alive,
			GPUInstanceID: p.GPUInstanceID, ComputeInstanceID: p.ComputeInstanceID,
		}, Person: m.Name(p.Person), Likely: m.Name(p.Likely), Computes: p.Computes, Share: p.Share}
	}
	out.Children = each(p.Children, func(c snapshot.Child) snapshot.Child {
		if m.MasksPeople() {
			c.User = m.Name(c.Owner().Person)
		}
		if m.Programs == ProgramsHidden {
			c.Program = ""
		}
		return c
	})
	if m.Programs == ProgramsHidden {
		if !p.Service() { // which nobody runs for themselves
			out.Program = ""
		}
		out.Unit = "" // which is called after the program
	}
	return out
}

func (m *masker) bookingAt(b *Booking) *Booking {
	if b == nil {
		return nil
	}
	return new(m.booking(*b))
}

func (m *masker) bookings(list []Booking) []Booking {
	out := make([]Booking, 0, len(list))
	for _, b := range list {
		if m.MasksPeople() && !m.hosts[b.Host] {
			continue // whatever somebody typed there
		}
		out = append(out, m.booking(b))
	}
	return out
}

func (m *masker) booking(b Booking) Booking {
	if !m.MasksPeople() {
		return b
	}
	return Booking{
		ID: m.BookingID(b.ID), Host: b.Host, GPUs: b.GPUs, UUID: b.UUID, Name: m.Name(b.Name), From: b.From,
		Until: b.Until,
		Kind:  b.Kind, By: m.Name(b.By), Active: b.Active, Expired: b.Expired, Forced: b.Forced,
	}
}

// BookingID is what a booking is called. Its own id is made of its content, so a
// masked site that showed it would let a reader try names.
func (p Privacy) BookingID(id string) string {
	if id == "" || !p.MasksPeople() {
		return id
	}
	return "booking-" + p.hash(id)
}

func (p Privacy) hash(s string) string {
	mac := hmac.New(sha256.New, p.Salt)
	mac.Write([]byte(s))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// problems keeps code and place of each problem: messages quote files, paths and people.
func (m *masker) problems(list []snapshot.Problem) []snapshot.Problem {
	if !m.MasksPeople() {
		return list
	}
	return each(list, func(p snapshot.Problem) snapshot.Problem {
		masked := snapshot.Problem{Code: p.Code, Message: p.Code, GPU: p.GPU}
		if m.hosts[p.Host] {
			masked.Host = p.Host
		}
		return masked
	})
}

// users adds up those who are one after masking.
func (m *masker) users(list []User) []User {
	if !m.MasksPeople() {
		return list
	}
	var out []User
	at := map[string]int{}
	for _, u := range list {
		u.Name = m.Name(u.Name)
		i, known := at[u.Name]
		if !known {
			at[u.Name] = len(out)
			out = append(out, u)
			continue
		}
		have := &out[i]
		have.Holding.add(u.Holding)
		have.Slices.add(u.Slices)
		have.Memory += u.Memory
		have.Processes += u.Processes
		addMeans(have, u.Mean2h, u.Mean24h, u.Mean1w)
		have.Where = mergeWhere(have.Where, u.Where)
	}
	sortUsers(out)
	return out
}

// mergeWhere returns the GPUs and slices of both lists, by host. It changes neither.
func mergeWhere(a, b []UserHost) []UserHost {
	gpus, labels := map[string][]int{}, map[string][]string{}
	for _, w := range slices.Concat(a, b) {
		gpus[w.Host] = slices.Concat(gpus[w.Host], w.GPUs)
		labels[w.Host] = slices.Concat(labels[w.Host], w.Slices)
	}
	var all []UserHost
	for _, host := range slices.SortedFunc(maps.Keys(gpus), NaturalCompare) {
		slices.Sort(gpus[host])
		slices.SortFunc(labels[host], NaturalCompare)
		all = append(all, UserHost{Host: host, GPUs: slices.Compact(gpus[host]), Slices: slices.Compact(labels[host])})
	}
	return all
}
