package history

// runs are numbers of which most are like the one before, as what somebody held
// in each five minutes of a day. Those after the last run are 0.
type runs []run

type run struct {
	end int32 // the index after its last number
	v   int32
}

// find returns which run holds the number i; len(rs) is the zeros after the last.
func (rs runs) find(i int) int {
	k := len(rs)
	for k > 0 && int(rs[k-1].end) > i { // the present is at the end
		k--
	}
	return k
}

func (rs runs) at(i int) int32 {
	if k := rs.find(i); k < len(rs) {
		return rs[k].v
	}
	return 0
}

// into writes the numbers out; list is 0 everywhere.
func (rs runs) into(list []int32) {
	at := 0
	for _, r := range rs {
		for ; at < int(r.end); at++ {
			list[at] = r.v
		}
	}
}

// sum adds up the numbers from <= i < to.
func (rs runs) sum(from, to int) int64 {
	var sum int64
	at := 0
	for _, r := range rs {
		if n := min(int(r.end), to) - max(at, from); n > 0 {
			sum += int64(r.v) * int64(n)
		}
		at = int(r.end)
	}
	return sum
}

// set changes one number and returns what it was.
func (rs *runs) set(i int, v int32) (was int32) {
	s := *rs
	if n := len(s); n > 0 && int(s[n-1].end) == i && s[n-1].v == v { // most are like the one before
		s[n-1].end++
		return 0
	}
	k := s.find(i)
	var after []run
	start := 0 // of the run that holds it
	if k > 0 {
		start = int(s[k-1].end)
	}
	if k < len(s) {
		was, after = s[k].v, s[k:]
		if int(s[k].end) == i+1 {
			after = s[k+1:]
		}
	}
	if was == v {
		return was
	}
	if len(after) > 0 { // its place is written over
		after = append([]run(nil), after...)
	}
	s = s[:k]
	if start < i {
		s = s.to(i, was)
	}
	s = s.to(i+1, v)
	for _, r := range after {
		s = s.to(int(r.end), r.v)
	}
	*rs = s
	return was
}

// to goes on with a number up to an index.
func (rs runs) to(end int, v int32) runs {
	if n := len(rs); n > 0 && rs[n-1].v == v {
		rs[n-1].end = int32(end)
		return rs
	}
	return append(rs, run{int32(end), v})
}

// drop forgets the first n numbers.
func (rs *runs) drop(n int) {
	s := *rs
	k := 0
	for k < len(s) && int(s[k].end) <= n {
		k++
	}
	s = append(s[:0], s[k:]...)
	for i := range s {
		s[i].end -= int32(n)
	}
	*rs = s
}
