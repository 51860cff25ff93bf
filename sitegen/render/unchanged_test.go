package render

import (
	"reflect"
	"testing"
	"time"

	"gpuboard/board"
)

// Whatever is equal to reflect.DeepEqual is equal, and nothing else.
func TestEqual(t *testing.T) {
	zone := func(offset int) *time.Location { return time.FixedZone("there", offset) }
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	values := []any{
		0, 1, "", "x", true, 1.5, []int(nil), []int{}, []int{1}, []int{2}, []int{1, 2}, (*int)(nil), ptr(1), ptr(1), ptr(2), [2]int{1, 2}, [2]int{1, 3},
		map[string]int{"a": 1}, map[string]int{"a": 1}, map[string]int{"a": 2}, at, at.Add(1), at.In(zone(3600)), at.In(zone(3600)), at.In(zone(7200)),
		[]any{1, "x"}, []any{1, "x"}, []any{1, "y"},
	}
	for _, x := range values {
		for _, y := range values {
			if reflect.TypeOf(x) != reflect.TypeOf(y) {
				continue
			}
			if got, want := equal(x, y), reflect.DeepEqual(x, y); got != want {
				t.Errorf("equal(%#v, %#v) is %t", x, y, got)
			}
		}
	}
	host := func() *board.Host { return &testFleet().Board.Hosts[0] }
	x := host()
	nudges(reflect.ValueOf(x).Elem(), x.Name, func(path string) {
		if equal(x, host()) {
			t.Errorf("a change of %s makes no difference", path)
		}
	})
}
