package text

import (
	"fmt"
	"time"

	"gpuboard/internal/board"
)

// textHost is the view for curl of one host: hosts/<h>/status.ansi, with a box
// for each GPU, and without colours status.txt. Like everything that belongs to
// one host it does not tell when it was generated: times are told as of the
// host's own snapshot, so a host without news is not rewritten.
func textHost(h *board.Host, zone *time.Location) []byte {
	t := newTextPage(&board.Board{GeneratedAt: h.SnapshotAt}, Options{Detail: true, Color: true, Zone: zone})
	color := "1;32"
	if h.Free == 0 {
		color = "1;33"
	}
	headline := fmt.Sprintf("%s: %d of %d GPUs free", t.safe(h.Name), h.Free, h.CountUnits())
	if silence := t.silence(h); silence != "" {
		headline += ", " + silence
	}
	t.line(color, headline)
	t.detailHost(h)
	for i := range h.GPUs {
		t.detailGPU(h, &h.GPUs[i])
	}
	return t.buf.Bytes()
}
