package page

import (
	"cmp"
	"slices"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// nowRows lists what somebody should look at now, the longest first.
func (v *view) nowRows(p *templates.HistoryPage) {
	type found struct {
		row  templates.NowRow
		time time.Duration
	}
	var idle, noShow, stuck []found
	b := v.in.Board
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Units() {
			heldIdle := !g.IdleSince.IsZero() && (g.State == board.Busy || g.State == board.InUse || g.State == board.Contested)
			if g.State != board.Stuck && !(g.NoShow && g.Booking != nil) && !heldIdle {
				continue
			}
			row := templates.NowRow{Where: h.Name + " " + g.Label(), Href: "../hosts/" + h.Name + "/index.html#" + v.gpuID(h.Name, g)}
			if g.MemoryUsed != nil {
				row.Memory = v.words.quantity(v.words.gib(*g.MemoryUsed), "gib")
			}
			owner := func(name string) {
				if name != "" && !slices.ContainsFunc(row.Who, func(w templates.Person) bool { return w.Name == render.Clean(name) }) {
					row.Who = append(row.Who, templates.Person{Name: render.Clean(name), Href: v.userHref("../", name)})
				}
			}
			row.Since = v.words.near(g.Since, b.GeneratedAt)
			switch {
			case g.State == board.Stuck:
				stuck = append(stuck, found{row, b.GeneratedAt.Sub(g.Since)})
			case g.NoShow && g.Booking != nil:
				owner(g.Booking.Name)
				spare := g.IdleFor(b.GeneratedAt)
				if spare == 0 && !g.Since.IsZero() {
					spare = b.GeneratedAt.Sub(g.Since)
				}
				if spare > 0 {
					row.For = v.words.length(spare)
				}
				noShow = append(noShow, found{row, spare})
			default:
				for k := range g.Processes {
					if g.Processes[k].Type.Computes() {
						owner(g.Processes[k].Person)
					}
				}
				spare := g.IdleFor(b.GeneratedAt)
				row.For = v.words.length(spare)
				idle = append(idle, found{row, spare})
			}
		}
	}
	list := func(from []found) (rows []templates.NowRow) {
		slices.SortStableFunc(from, func(x, y found) int { return cmp.Compare(y.time, x.time) })
		for i, f := range from {
			if i == maxNowRows {
				p.NowMore += len(from) - i
				break
			}
			rows = append(rows, f.row)
		}
		return rows
	}
	p.Idle, p.NoShows, p.Stuck = list(idle), list(noShow), list(stuck)
}

func (v *view) unused() (rows []templates.UnusedRow) {
	for _, u := range render.UnusedBookings(v.in.Board, v.in.History) {
		if len(rows) == maxNowRows || u.Spare < 30*time.Minute {
			break
		}
		rows = append(rows, templates.UnusedRow{
			Where: u.Booking.Host + " " + u.GPU.Label(), Href: "../hosts/" + u.Booking.Host + "/index.html#" + v.gpuID(u.Booking.Host, u.GPU),
			Person: templates.Person{Name: render.Clean(u.Booking.Name), Href: v.userHref("../", u.Booking.Name)},
			From:   v.words.near(u.Booking.From, v.in.Board.GeneratedAt), Until: v.words.near(u.Booking.Until, v.in.Board.GeneratedAt),
			Booked: v.words.digits(u.Past.Hours()), Unused: v.words.digits(u.Spare.Hours()), Part: partOf(float64(u.Spare) / float64(u.Known)),
			Unknown: v.words.digits((u.Past - u.Known).Hours()),
		})
	}
	return rows
}
