package cli

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/internal/spelling"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

func (a *app) statusCommand() *cobra.Command {
	var from string
	var detail, asJSON, asCSV bool
	var filter text.Options
	c := &cobra.Command{
		Use: "status [HOST…]", Short: "the board of the whole cluster, or a part of it", GroupID: groupUse,
		Long: "status shows the board: read from a site by its address, from a site's directory, or merged\n" +
			"here from a data directory. It judges the board's age by this machine's clock: an old one is\n" +
			"said to be old, and of one that is very old nothing is believed. It exits with 5 when\n" +
			"nothing matches, and with 3 when the board itself is too old.\n" + exitStatus,
		Example:           "  gpuboard status --from https://gpu.example.org/\n  gpuboard status --free --model a100\n  gpuboard status gpu01 --detail\n  gpuboard status --user eva --csv",
		ValidArgsFunction: a.completeHosts,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			if asJSON && asCSV {
				return failure.Usage("", "--json and --csv: one of them")
			}
			look, err := a.look(cfg)
			if err != nil {
				return err
			}
			look.Detail, look.Free, look.User, look.Model = detail, filter.Free, filter.User, filter.Model
			for _, arg := range args {
				host, err := snapshot.ParseHost(arg)
				if err != nil {
					return failure.Usage("", "%w", err)
				}
				look.Hosts = append(look.Hosts, host)
			}
			s, err := source.Open(a.source(cfg), from)
			if err != nil {
				return err
			}
			p, err := s.Read(c.Context())
			if err != nil {
				return err
			}
			dead := a.judge(s, p.Board)
			missing := a.missingHosts(p.Board, look.Hosts)
			shown := filtered(p, look)
			switch {
			case asJSON:
				_, err = a.stdout.Write(shown.JSON())
			case asCSV:
				err = writeCSV(a.stdout, shown.Board)
			default:
				err = a.writeStatus(p.Board, look)
			}
			switch {
			case err != nil:
				return fmt.Errorf("writing the status: %w", err)
			case dead:
				return silent(failure.ExitDegraded)
			case len(shown.Board.Hosts) == 0 && (missing > 0 || look.Free || look.User != "" || look.Model != ""):
				return silent(failure.ExitNoMatch)
			case missing > 0:
				return silent(failure.ExitDegraded)
			}
			return nil
		},
	}
	a.flags(c, sourceKeys()...)
	sourceFlag(c, &from)
	c.Flags().BoolVar(&detail, "detail", false, "a box for each GPU, with its processes")
	c.Flags().BoolVar(&filter.Free, "free", false, "free GPUs only")
	c.Flags().StringVar(&filter.User, "user", "", "only GPUs that this `PERSON` uses or has booked")
	c.Flags().StringVar(&filter.Model, "model", "", "only GPUs whose name contains this `TEXT`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON in the shape of api/v1/board.json")
	c.Flags().BoolVar(&asCSV, "csv", false, "print a table for spreadsheets")
	return c
}

// sourceFlag declares --from.
func sourceFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "from", "", "`WHERE` the board is: a site's address or directory, or a data directory (default: site_url of the configuration, else what lies here)")
}

// How old a board may be, in intervals of its generator: the page itself turns
// grey by the same rule.
const (
	lateIntervals = 2.5
	deadIntervals = 10
)

// age is how old a board is, and how old it may be before it is called late.
func (a *app) age(b *board.Board) (age, interval time.Duration) {
	interval = b.Interval
	if interval <= 0 {
		interval = time.Minute
	}
	return a.now().Sub(b.GeneratedAt), interval
}

// late reports whether a board is too old to be acted upon.
func (a *app) late(b *board.Board) bool {
	age, interval := a.age(b)
	return float64(age) > lateIntervals*float64(interval)
}

// judge says on stderr when a board is old. One that is very old says nothing
// about now: every GPU on it becomes unknown, and dead is true.
func (a *app) judge(s *source.Source, b *board.Board) (dead bool) {
	age, interval := a.age(b)
	switch {
	case age > deadIntervals*interval:
		expire(b)
		fmt.Fprintf(a.stderr, "gpuboard: %s is %s old and due every %s: its generator has stopped, and nothing is known about now\n", failure.Printable(s.Name), board.Span(age), board.Span(interval))
		return true
	case a.late(b):
		fmt.Fprintf(a.stderr, "gpuboard: %s is %s old and due every %s: it may be wrong by now\n", failure.Printable(s.Name), board.Span(age), board.Span(interval))
	case age < -time.Minute:
		fmt.Fprintf(a.stderr, "gpuboard: %s is of a moment that is %s ahead: this machine's clock or that one's is wrong\n", failure.Printable(s.Name), board.Span(-age))
	}
	return false
}

// expire makes everything on a board unknown.
func expire(b *board.Board) {
	for i := range b.Hosts {
		h := &b.Hosts[i]
		if h.State != board.Never {
			h.State = board.Stale
		}
		h.Node = snapshot.Node{}
		for g := range h.Rows() {
			if g.Last == nil {
				last := &board.LastSeen{State: g.State, At: h.SnapshotAt}
				for k := range g.Processes {
					if who := g.Processes[k].Person; who != "" && !slices.Contains(last.Users, who) {
						last.Users = append(last.Users, who)
					}
				}
				g.Last = last
			}
			kept := board.GPU{ShortName: g.ShortName, Slices: g.Slices, Slice: g.Slice, State: board.Unknown, Reason: board.ReasonStale, Booking: g.Booking, Next: g.Next, Others: g.Others, Last: g.Last}
			kept.Index, kept.UUID, kept.PCIBusID, kept.Name, kept.MemoryTotal, kept.Health = g.Index, g.UUID, g.PCIBusID, g.Name, g.MemoryTotal, snapshot.HealthUnknown
			*g = kept
		}
	}
	data.Count(b)
}

// missingHosts says which of the hosts that were asked for are not there.
func (a *app) missingHosts(b *board.Board, names []string) (missing int) {
	var known []string
	for i := range b.Hosts {
		known = append(known, b.Hosts[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			missing++
			fmt.Fprintf(a.stderr, "gpuboard: there is no host %s on this board%s\n", name, spelling.DidYouMean(name, known))
		}
	}
	return missing
}

// filtered is the board with only what the options show. Its totals and models
// stay those of the whole.
func filtered(p *data.Published, o text.Options) *data.Published {
	b := *p.Board
	b.Hosts = nil
	for _, h := range p.Board.Hosts {
		gpus, shown := text.Shown(&h, o)
		if !shown {
			continue
		}
		h.GPUs = gpus
		b.Hosts = append(b.Hosts, h)
	}
	q := *p
	q.Board = &b
	return &q
}

// writeStatus writes the text; all of it grey when it is old.
func (a *app) writeStatus(b *board.Board, look text.Options) error {
	if !look.Color || !a.late(b) {
		return text.Status(a.stdout, b, look)
	}
	look.Color = false
	var buf, grey bytes.Buffer
	if err := text.Status(&buf, b, look); err != nil {
		return err
	}
	for line := range strings.Lines(buf.String()) {
		grey.WriteString("\x1b[2m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n")
	}
	_, err := a.stdout.Write(grey.Bytes())
	return err
}

// writeCSV writes one line for each GPU, or for each of its slices where it is
// partitioned, and one for each host without any.
// Unknown is an empty cell.
func writeCSV(w io.Writer, b *board.Board) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"host", "group", "host_state", "snapshot_at", "gpu", "uuid", "model", "state", "utilization_gpu_percent",
		"memory_used_mib", "memory_total_mib", "temperature_celsius", "power_draw_watts", "users", "programs", "since", "idle_for_seconds",
		"booked_by", "booked_until", "free_from", "free_until"})
	for i := range b.Hosts {
		h := &b.Hosts[i]
		head := []string{cell(h.Name), cell(h.Group), string(h.State), moment(h.SnapshotAt)}
		if len(h.GPUs) == 0 {
			_ = out.Write(append(head, make([]string, 17)...))
		}
		for g := range h.Units() {
			_ = out.Write(append(slices.Clone(head), csvGPU(g, b.GeneratedAt)...))
		}
	}
	out.Flush()
	return out.Error()
}

func csvGPU(g *board.GPU, now time.Time) []string {
	var users, programs []string
	for i := range g.Processes {
		p := &g.Processes[i]
		who := p.Person
		if who == "" {
			who = p.User
		}
		if who != "" && p.Type.Computes() && !slices.Contains(users, who) {
			users = append(users, who)
		}
		if p.Program != "" && p.Type.Computes() && !slices.Contains(programs, p.Program) {
			programs = append(programs, p.Program)
		}
	}
	idle, bookedBy, bookedUntil, watts := "", "", "", ""
	if d := g.IdleFor(now); d > 0 {
		idle = strconv.FormatInt(int64(d/time.Second), 10)
	}
	if g.Booking != nil {
		bookedBy, bookedUntil = cell(g.Booking.Name), moment(g.Booking.Until)
	}
	if g.PowerDraw != nil {
		watts = strconv.FormatFloat(*g.PowerDraw, 'f', 1, 64)
	}
	return []string{g.Label(), cell(g.UUID), cell(g.Name), string(g.State), whole(g.UtilizationGPU),
		whole(g.MemoryUsed), whole(g.MemoryTotal), whole(g.Temperature), watts, cell(strings.Join(users, " ")), cell(strings.Join(programs, " ")),
		moment(g.Since), idle, bookedBy, bookedUntil, moment(g.FreeFrom), moment(g.FreeUntil)}
}

// cell makes foreign text safe for a spreadsheet, which takes one that begins
// with these for a formula.
func cell(s string) string {
	s = snapshot.Text(s, snapshot.MaxTextBytes)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func whole[T int | int64](v *T) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
