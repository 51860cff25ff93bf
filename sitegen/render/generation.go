package render

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"gpuboard/internal/board"
)

// Generation names one generation: a page and the JSON beside it carry the same
// one exactly when they were made from the same board. It is a digest of the
// moment and of what every host, GPU and booking was then.
func Generation(b *board.Board) string {
	buf := make([]byte, 0, 64*len(b.Hosts)+64)
	buf = appendTime(buf, b.GeneratedAt)
	for i := range b.Hosts {
		h := &b.Hosts[i]
		buf = append(append(append(append(buf, '\n'), h.Name...), '\t'), h.State...)
		buf = appendTime(append(buf, '\t'), h.SnapshotAt)
		for g := range h.Rows() {
			buf = append(append(buf, '\t'), g.State...)
		}
	}
	for i := range b.Bookings {
		buf = append(append(buf, '\n'), b.Bookings[i].ID...)
		buf = appendTime(append(buf, '\t'), b.Bookings[i].Until)
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:8])
}

// GenerationID is the generation of the board: Generation, or a new digest.
func (in *Input) GenerationID() string {
	if in.Generation != "" {
		return in.Generation
	}
	return Generation(in.Board)
}

func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.999Z07:00")
}
