package text

import (
	"fmt"
	"time"

	"gpuboard/internal/board"
)

// textHost is the view for curl of one host, with a box for each GPU. Like
// everything that belongs to one host it does not say when it was generated: times
// are those of the host's own snapshot, so a host without news is not rewritten.
func textHost(h *board.Host, zone *time.Location) []byte {
	t := newTextPage(&board.Board{GeneratedAt: h.SnapshotAt}, Options{Detail: true, Zone: zone})
	headline := fmt.Sprintf("%s: %d of %d GPUs free", t.safe(h.Name), h.Free, h.CountUnits())
	if silence := t.silence(h); silence != "" {
		headline += ", " + silence
	}
	t.line("", headline)
	t.detailHost(h)
	for i := range h.GPUs {
		t.detailGPU(h, &h.GPUs[i])
	}
	return t.buf.Bytes()
}
