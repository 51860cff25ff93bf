package text

import (
	"fmt"
	"time"

	"gpuboard/internal/board"
)

// textHost is the view for curl of one host: a headline, and a box for each GPU.
// Like everything that belongs to one host it does not say when it was generated:
// times are those of the host's own snapshot, so a host without news is not rewritten.
// headline is the length of the headline.
func textHost(h *board.Host, zone *time.Location) (content []byte, headline int) {
	t := newTextPage(&board.Board{GeneratedAt: h.SnapshotAt}, Options{Detail: true, Zone: zone})
	text := fmt.Sprintf("%s: %d of %d GPUs free", t.safe(h.Name), h.Free, h.CountUnits())
	if silence := t.silence(h); silence != "" {
		text += ", " + silence
	}
	t.line("", text)
	headline = t.buf.Len()
	t.detailHost(h)
	for i := range h.GPUs {
		t.detailGPU(h, &h.GPUs[i])
	}
	return t.buf.Bytes(), headline
}

// detailOf is detail.txt. The boxes are those of the hosts' own texts.
func detailOf(b *board.Board, zone *time.Location, boxes [][]byte) []byte {
	t := newTextPage(b, Options{Detail: true, Zone: zone})
	t.headline()
	for _, box := range boxes {
		t.buf.Write(box)
		t.rule()
	}
	if len(boxes) == 0 {
		t.line("", nothing)
	}
	t.notes()
	return t.buf.Bytes()
}
