package boardtest

import (
	"fmt"
	"time"
	"unicode"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// Hostile fills every text of a fleet with what must not get through.
func Hostile(in render.Input, evil string) render.Input {
	b := in.Board
	in.Site.Title, in.Site.Version = evil, evil
	for i := range b.Hosts {
		h := &b.Hosts[i]
		h.Title, h.Group, h.Note, h.Owner, h.Address, h.Driver, h.Check = evil, evil, evil, evil, evil, evil, evil
		h.Tags = []string{evil}
		h.Node.Kernel = evil
		h.Node.Disks = []snapshot.Disk{{Mount: evil}}
		h.Node.Interfaces = []snapshot.Interface{{Name: evil, Addrs: []string{evil}}}
		h.Problems = []snapshot.Problem{{Code: evil, Message: evil, File: evil, Line: 1}}
		for j := range h.GPUs {
			g := &h.GPUs[j]
			g.Name, g.ShortName, g.UUID, g.HealthReason, g.Reason = evil, evil, evil, evil, evil
			g.Slices = []board.GPU{board.NewSlice(g, &snapshot.MIGDevice{Profile: evil, UUID: evil})}
			g.Slices[0].State = g.State
			g.Holders = []string{evil}
			for k := range g.Processes {
				p := &g.Processes[k]
				p.User, p.Person, p.Program, p.Container, p.Type = evil, evil, evil, evil, snapshot.ProcessType(evil)
				p.ContainerName, p.Pod, p.Unit, p.Job = evil, evil, evil, evil
				p.By = []snapshot.Claim{{User: evil, Source: snapshot.Source(evil)},
					{User: evil, Source: snapshot.ByLabel}}
				p.Children = []snapshot.Child{{PID: 1, User: evil, Program: evil}}
			}
			if g.Booking != nil {
				g.Booking.Name, g.Booking.Comment, g.Booking.By, g.Booking.ID = evil, evil, evil, evil
			}
			if g.Last != nil {
				g.Last.Users = []string{evil}
			}
		}
	}
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		bk.Name, bk.Comment, bk.By, bk.ID = evil, evil, evil, evil
	}
	for i := range b.Models {
		b.Models[i].Name, b.Models[i].FullName = evil, evil
	}
	for i := range b.Users {
		b.Users[i].Name = evil
	}
	b.Problems = append(b.Problems, snapshot.Problem{Code: evil, Message: evil, Host: evil})
	return in
}

// Evil is a text that a page, a program or a terminal might obey.
const Evil = "a\x1b]0;x\x07\"\\\n\r\x00\u202eb\u2028\xff</script><b>&\U0001f4a3\u009b31m"

// HostilePast is a board whose past has such names.
func HostilePast(x string) render.Input {
	in := Lab()
	in.Board.Hosts = in.Board.Hosts[:1]
	in = Remembered(in)
	f := in.History.Fleet
	in.Site.Energy.Currency = "x" + x
	in.Board.Colors[x+"!"] = 1
	in.Events = []events.Event{{Kind: events.HostGone, At: Now.Add(-time.Hour), Host: x + "!", Users: []string{x + "!"},
		Summary: x}}
	for i := range f.Windows {
		for j := range f.Windows[i].Users {
			if j > 0 {
				f.Windows[i].Users[j].Name = Apart(x, fmt.Sprint(j)) + "!" // nobody who has a page
			}
		}
		f.Windows[i].Teams[0].Name = x + "!"
	}
	for i := range f.Spans {
		f.Spans[i].Free = map[string][]*float64{x + "!": f.Spans[i].Free["H100"]}
		f.Spans[i].Held = map[string][]*float64{x + "!": f.Spans[i].Held["H100"]}
		f.Spans[i].People[0].Name = x + "!"
	}
	return in
}

// Apart keeps names different even where a long one is cut.
func Apart(x, what string) string {
	if len(x) > snapshot.MaxNameBytes {
		return what + x
	}
	return x + what
}

// Obeyed reports characters that a terminal acts upon or that change the
// direction of others; a line feed is allowed.
func Obeyed(r rune) bool {
	return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
