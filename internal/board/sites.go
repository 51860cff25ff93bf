package board

import (
	"maps"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

// What one board takes in of others.
const (
	MaxSites  = 100 // that it reads
	MaxBoards = 256 // in one sum
	MaxDepth  = 4   // of boards that read boards
)

// Sums are the numbers of a board, or of several.
type Sums struct {
	Totals   Totals
	Models   []Model
	Problems int
}

// A Summary is what a board says of itself to boards that show several.
type Summary struct {
	ID                       string // tells boards apart; "" where it does not say
	Title, URL               string
	GeneratedAt, Due, LateAt time.Time
	BookSSH                  string // on which host its bookings are changed by ssh, "" where it does not say
	Own                      Sums
	Others                   Others
}

// Others are the boards that a board reads itself, in one sum.
type Others struct {
	Sums
	IDs   []string
	Depth int // 1 where these read none
}

// A Site is another board that this one reads.
type Site struct {
	Name    string
	Place   string    // where its files are, without a password
	URL     string    // where its pages are, "" where that is not known
	Summary *Summary  // the last that could be read; nil for none
	ReadAt  time.Time // when, by our own clock
	Fault   string    // why it could not be read the last time, "" if it could
	State   HostState // up, stale or never
}

// Said is what the board last said, of itself and of those that it reads.
func (s *Site) Said() (sums Sums) {
	if s.Summary != nil {
		sums.add(s.Summary.Own)
		sums.add(s.Summary.Others.Sums)
	}
	return sums
}

// Sums is what counts of it: of a board without news nothing is known.
func (s *Site) Sums() Sums { return s.known(s.Said()) }

func (s *Site) known(sums Sums) Sums {
	if s.State == Up {
		return sums
	}
	t := &sums.Totals
	for _, c := range []*Count{&t.GPUs, &t.Slices} {
		*c = Count{All: c.All, ByState: map[State]int{Unknown: c.All}}
	}
	t.ByHost = map[HostState]int{Stale: t.Hosts}
	sums.Models = slices.Clone(sums.Models)
	for i := range sums.Models {
		sums.Models[i].Free, sums.Models[i].Next = 0, nil
	}
	return sums
}

// Others sums up the boards that this one reads. What they read themselves counts once.
func (b *Board) Others() (o Others) {
	seen := func(id string) bool { return id == b.ID || slices.Contains(o.IDs, id) }
	for i := range b.Sites {
		s := &b.Sites[i]
		if s.Summary == nil {
			continue
		}
		o.add(s.known(s.Summary.Own))
		o.Depth = max(o.Depth, 1)
		if id := s.Summary.ID; id != "" && !seen(id) {
			o.IDs = append(o.IDs, id)
		}
	}
	for i := range b.Sites {
		s := &b.Sites[i]
		if s.Summary == nil || len(s.Summary.Others.IDs)+len(o.IDs) > MaxBoards ||
			slices.ContainsFunc(s.Summary.Others.IDs, seen) {
			continue
		}
		o.add(s.known(s.Summary.Others.Sums))
		o.Depth = max(o.Depth, 1+s.Summary.Others.Depth)
		o.IDs = append(o.IDs, s.Summary.Others.IDs...)
	}
	return o
}

func (s *Sums) add(other Sums) {
	t, more := &s.Totals, &other.Totals
	t.GPUs.add(more.GPUs)
	t.Slices.add(more.Slices)
	t.Hosts += more.Hosts
	t.ByHost = addCounts(t.ByHost, more.ByHost)
	s.Problems += other.Problems
	models := slices.Clone(other.Models)
	for i := range models {
		if next := models[i].Next; next != nil { // of which host says only its own board
			models[i].Next = &Next{At: next.At, Count: next.Count}
		}
	}
	s.Models = AddModels(s.Models, models, func(x, y Model) bool {
		return x.Name == y.Name && x.MIG == y.MIG && WholeGiB(x.MemoryTotal) == WholeGiB(y.MemoryTotal)
	})
	slices.SortStableFunc(s.Models, func(x, y Model) int { return y.Free - x.Free })
}

func (c *Count) add(other Count) {
	c.All += other.All
	c.HeldIdle += other.HeldIdle
	c.ByState = addCounts(c.ByState, other.ByState)
}

func addCounts[K comparable](sum, more map[K]int) map[K]int {
	sum = maps.Clone(sum)
	if sum == nil {
		sum = map[K]int{}
	}
	for k, n := range more {
		sum[k] += n
	}
	return sum
}

// Judge sets the state of a board by its news, which count until some time after it is late, and returns what is wrong.
func (s *Site) Judge(now time.Time, tolerance, after time.Duration) (fault string) {
	s.State = Never
	if s.Summary == nil {
		return s.Fault
	}
	s.State = Stale
	switch ahead := s.Summary.GeneratedAt.Sub(now); {
	case ahead > tolerance:
		return "its clock is " + snapshot.Length(ahead) + " ahead of ours"
	case !now.After(s.Summary.LateAt.Add(after)):
		s.State = Up
	case s.Fault == "":
		return "its last generation was " + snapshot.Length(-ahead) + " ago"
	}
	return s.Fault
}

// sites judges the news of other boards, and drops the sums of those that have counted this one, or that read boards
// which read boards, and so on. A board that could not be asked yet is no problem.
func (m *merger) sites() (list []Site, problems []snapshot.Problem) {
	for _, s := range m.Sites {
		if s.Summary != nil {
			summary := *s.Summary
			if slices.Contains(summary.Others.IDs, m.ID) || summary.Others.Depth >= MaxDepth {
				summary.Others = Others{}
			}
			s.Summary = &summary
		}
		fault := s.Judge(m.Now, m.set.ClockTolerance, 2*m.Interval) // what is read now is for the next generation
		if s.State != Up && fault != "" {
			problems = append(problems,
				snapshot.Problem{Code: "cluster:late", File: "cluster " + s.Name, Message: fault})
		}
		list = append(list, s)
	}
	return list, problems
}
