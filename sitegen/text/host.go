package text

import (
	"bytes"
	"fmt"
	"time"

	"gpuboard/internal/board"
)

// textHost is the view for curl of one host: a headline, and a box for each GPU.
// Like everything that belongs to one host it does not say when it was generated:
// times are those of the host's own snapshot, so a host without news is not rewritten.
func textHost(h *board.Host, zone *time.Location) (headline, boxes []byte) {
	t := newTextPage(&board.Board{GeneratedAt: h.SnapshotAt}, Options{Detail: true, Zone: zone})
	text := fmt.Sprintf("%s: %d of %d GPUs free", t.safe(h.Name), h.Free, h.CountUnits())
	if silence := t.silence(h); silence != "" {
		text += ", " + silence
	}
	t.line("", text)
	n := t.buf.Len()
	t.detailHost(h)
	for i := range h.GPUs {
		t.detailGPU(h, &h.GPUs[i])
	}
	return t.buf.Bytes()[:n], t.buf.Bytes()[n:]
}

// detailOf is detail.txt, in parts: the boxes are those of the hosts' own texts.
func detailOf(b *board.Board, zone *time.Location, boxes [][]byte) [][]byte {
	t := newTextPage(b, Options{Detail: true, Zone: zone})
	t.headline()
	parts := [][]byte{bytes.Clone(t.buf.Bytes())}
	t.buf.Reset()
	t.rule()
	rule := bytes.Clone(t.buf.Bytes())
	for _, box := range boxes {
		parts = append(parts, box, rule)
	}
	t.buf.Reset()
	if len(boxes) == 0 {
		t.line("", nothing)
	}
	t.notes()
	return append(parts, t.buf.Bytes())
}
