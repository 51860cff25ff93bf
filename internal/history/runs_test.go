package history

import (
	"testing"

	"pgregory.net/rapid"
)

// Runs are what a list of numbers would be, whatever is done to both.
func TestRunsAreNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs runs
		var list [40]int32
		index, value := rapid.IntRange(0, len(list)-1), rapid.Int32Range(-2, 2)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i, v := index.Draw(t, "i"), value.Draw(t, "v")
				if was := rs.set(i, v); was != list[i] {
					t.Fatalf("number %d was %d, and set says %d", i, list[i], was)
				}
				list[i] = v
			},
			"drop": func(t *rapid.T) {
				n := index.Draw(t, "n")
				rs.drop(n)
				copy(list[:], list[n:])
				clear(list[len(list)-n:])
			},
			"": func(t *rapid.T) {
				from, to := index.Draw(t, "from"), index.Draw(t, "to")
				sum := int64(0)
				for i, v := range list {
					if i >= from && i < to {
						sum += int64(v)
					}
					if got := rs.at(i); got != v {
						t.Fatalf("number %d is %d, and runs say %d: %v", i, v, got, rs)
					}
				}
				if got := rs.sum(from, to); got != sum {
					t.Fatalf("%d to %d add up to %d, and runs say %d: %v", from, to, sum, got, rs)
				}
				for i := 1; i < len(rs); i++ {
					if rs[i].v == rs[i-1].v || rs[i].end <= rs[i-1].end {
						t.Fatalf("runs that are none: %v", rs)
					}
				}
			},
		})
	})
}
