package board_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
)

// saying is the summary of a board with so many GPUs, some of them free, made some time ago by a generator that works
// every minute.
func saying(id string, all, free int, ago time.Duration, others ...string) *board.Summary {
	sums := func(all, free int) board.Sums {
		model := board.Model{Name: "H100", Total: all, Free: free, Next: &board.Next{At: now.Add(time.Hour), Count: 2}}
		return board.Sums{
			Totals: board.Totals{Hosts: 1, GPUs: board.Count{All: all, ByState: map[board.State]int{board.Free: free}}},
			Models: []board.Model{model}, Problems: 1,
		}
	}
	s := &board.Summary{ID: id, GeneratedAt: now.Add(-ago), LateAt: now.Add(150*time.Second - ago),
		Own: sums(all, free)}
	if len(others) > 0 {
		s.Others = board.Others{Sums: sums(10*len(others), len(others)), IDs: others, Depth: 1}
	}
	return s
}

// TestSites: a board without news keeps its numbers, has nothing free, and changes no other line; the sums of those
// that have counted this one are left out.
func TestSites(t *testing.T) {
	deep := saying("f", 8, 1, 0, "g")
	deep.Others.Depth = 4
	b, _ := board.Merge(board.Input{Now: now, ID: "me", Sites: []board.Site{
		{Name: "near", Summary: saying("a", 8, 3, time.Minute)},
		{Name: "late", Summary: saying("b", 8, 4, 12*time.Minute)},
		{Name: "away", Summary: saying("c", 8, 2, 2*time.Minute), Fault: "no answer"},
		{Name: "gone", Summary: saying("h", 8, 2, time.Hour), Fault: "no answer"},
		{Name: "new"},
		{Name: "none", Fault: "no such host"},
		{Name: "ahead", Summary: saying("d", 8, 5, -2*time.Minute)},
		{Name: "soon", Summary: saying("i", 8, 5, -30*time.Second)},
		{Name: "loop", Summary: saying("e", 8, 1, 0, "me", "a")},
		{Name: "deep", Summary: deep},
		{Name: "group", Summary: saying("", 8, 0, 0, "x", "y")},
	}})
	var got, problems []string
	for i := range b.Sites {
		s := &b.Sites[i]
		last, counts := s.Said(), s.Sums()
		next := len(counts.Models) > 0 && counts.Models[0].Next != nil
		got = append(got, fmt.Sprintf("%s %s %d/%d/%d %t", s.Name, s.State,
			counts.Totals.GPUs.Free(), last.Totals.GPUs.Free(), counts.Totals.GPUs.All, next))
		if s.State != board.Up && counts.Totals.GPUs.ByState[board.Unknown] != counts.Totals.GPUs.All {
			t.Errorf("%s: %v", s.Name, counts.Totals.GPUs)
		}
	}
	for _, p := range b.Problems {
		problems = append(problems, p.Code+" "+p.Where()+": "+p.Message)
	}
	want := `near up 3/3/8 true
late stale 0/4/8 false
away up 2/2/8 true
gone stale 0/2/8 false
new never 0/0/0 false
none never 0/0/0 false
ahead stale 0/5/8 false
soon up 5/5/8 true
loop up 1/1/8 true
deep up 1/1/8 true
group up 2/2/28 true`
	if strings.Join(got, "\n") != want {
		t.Errorf("sites:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
	want = `cluster:late cluster late: its last generation was 12 min ago
cluster:late cluster gone: no answer
cluster:late cluster none: no such host
cluster:late cluster ahead: its clock is 2 min ahead of ours`
	if strings.Join(problems, "\n") != want {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(problems, "\n"), want)
	}
	o := b.Others()
	if gpus := o.Totals.GPUs; gpus.All != 9*8+20 || gpus.Free() != 3+2+5+1+1+0+2 || o.Depth != 2 || len(o.IDs) != 10 {
		t.Errorf("the sum: %d of %d, %d deep, of %q", gpus.Free(), gpus.All, o.Depth, o.IDs)
	}
	if len(o.Models) != 1 || o.Models[0].Next.Count != 2*7 || o.Models[0].Next.Host != "" {
		t.Errorf("by model: %+v", o.Models)
	}
	b.Expire()
	if sums := b.Sites[0].Sums(); sums.Totals.GPUs.Free() != 0 || b.Sites[0].Said().Totals.GPUs.Free() != 3 {
		t.Errorf("of a board that is out of date: %+v", sums)
	}
}

// TestSitesAreReadAGenerationLater: a board that is shown as it was read beside the last generation is not late for that.
func TestSitesAreReadAGenerationLater(t *testing.T) {
	for ago, want := range map[time.Duration]board.HostState{190 * time.Second: board.Up,
		191 * time.Second: board.Stale} {
		in := board.Input{Now: now, Interval: 20 * time.Second,
			Sites: []board.Site{{Name: "a", Summary: saying("a", 8, 1, ago)}}}
		if b, _ := board.Merge(in); b.Sites[0].State != want {
			t.Errorf("%s ago: %s", ago, b.Sites[0].State)
		}
	}
}

// TestSitesCountOnce: what two boards read counts once, and so do two boards that read each other.
func TestSitesCountOnce(t *testing.T) {
	b, _ := board.Merge(board.Input{Now: now, ID: "me", Sites: []board.Site{
		{Name: "a", Summary: saying("a", 8, 1, 0, "b")},
		{Name: "b", Summary: saying("b", 8, 1, 0, "a")},
		{Name: "c", Summary: saying("c", 8, 1, 0, "x", "y")},
		{Name: "d", Summary: saying("d", 8, 1, 0, "y")},
	}})
	if o := b.Others(); o.Totals.GPUs.All != 4*8+20 || len(o.IDs) != 6 {
		t.Errorf("%d GPUs of %q", o.Totals.GPUs.All, o.IDs)
	}
}

// TestNextOfAModel: the first of those that come free by their bookings, and all that do at the same time.
func TestNextOfAModel(t *testing.T) {
	b := board.Board{Hosts: []board.Host{{Name: "gpu01"}, {Name: "gpu02"}}}
	for i, at := range []time.Time{now.Add(2 * time.Hour), now.Add(time.Hour), now.Add(time.Hour), {},
		now.Add(time.Minute)} {
		g := board.GPU{State: board.Booked, FreeFrom: at}
		g.Index, g.Name = i, "NVIDIA H100"
		if i == 4 {
			g.State = board.Free // as it is
		}
		b.Hosts[i%2].GPUs = append(b.Hosts[i%2].GPUs, g)
	}
	b.Count()
	next := b.Models[0].Next
	if len(b.Models) != 1 || next == nil || !next.At.Equal(now.Add(time.Hour)) || next.Count != 2 ||
		next.Host != "gpu01" || next.GPU != 2 {
		t.Errorf("next: %+v of %+v", next, b.Models)
	}
	if own := b.Hosts[1].Models[0].Next; own.Count != 1 || own.GPU != 1 {
		t.Errorf("next of one host: %+v", own)
	}
}
