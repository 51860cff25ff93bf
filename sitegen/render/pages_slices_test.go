package render

import (
	"strings"
	"testing"
)

// A slice without a UUID cannot be booked, and is a row like the others.
func TestSliceWithoutUUIDIsShown(t *testing.T) {
	in := testFleet()
	in.Board.Hosts[2].GPUs[2].Slices[0].UUID = ""
	if page := string(fileOf(t, pages(t, in), "hosts/ceres/index.html").Bytes()); strings.Count(page, "3g.20gb") == 0 {
		t.Error("the slice is not on its host's page")
	}
}
