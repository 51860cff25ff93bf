package render

import (
	"strings"
	"testing"

	"gpuboard/internal/board"
)

// Why nothing is known of a GPU, and what was last known of it, are two statements.
func TestReasonAndLastSeenStayApart(t *testing.T) {
	in := testFleet()
	g := &in.Board.Hosts[0].GPUs[0]
	g.State, g.Reason, g.Processes, g.Last = board.Unknown, board.ReasonUnasked, nil, &board.LastSeen{State: board.Free, At: fleetNow}
	files := pages(t, in)
	got := textOf(byID(parse(t, files[len(files)-1]), in.Board.Hosts[0].Name+"-0"))
	if !strings.Contains(got, "could not be asked about it · last seen ") || !strings.Contains(got, ": free") {
		t.Errorf("the row says %q", got)
	}
}
