package snapshot

import (
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// maxSeq is far below an overflow of sums of differences, and at one snapshot a second it
// lasts for three million years.
const maxSeq = 1e14

// DecodeSamples reads what [EncodeSamples] writes. Impossible readings become unknown and
// are counted in bad. Samples whose users did not change share one slice, which is
// read-only.
func DecodeSamples(data []byte) (samples []Sample, bad int, err error) {
	if _, err := ofNode().document(data); err != nil {
		return nil, 0, err
	}
	return decodeBlocks(nil, data)
}

func decodeBlocks(samples []Sample, data []byte) (_ []Sample, bad int, err error) {
	var blocks []block
	if err := jsonv2.Unmarshal(data, &blocks, lenient); err != nil {
		return nil, 0, refuse(BadParse, "reading samples: %w", err)
	}
	for i := range blocks {
		var n int
		if samples, n, err = blocks[i].samples(samples); err != nil {
			return nil, 0, err
		}
		bad += n
	}
	return samples, bad, nil
}

func (b *block) samples(to []Sample) (_ []Sample, bad int, err error) {
	n, gpus := len(b.Seq), len(b.GPUs)
	switch {
	case n == 0 || len(b.At) != n:
		return nil, 0, refuse(BadParse, "a block has %d numbers and %d times", n, len(b.At))
	case len(to)+n > MaxSamples:
		return nil, 0, refuse(BadTooMany, "more than %d samples", MaxSamples)
	case len(b.Load) != 0 && len(b.Load) != n || len(b.HostMemory) != 0 && len(b.HostMemory) != n:
		return nil, 0, refuse(BadParse, "the columns of a host do not fit its %d samples", n)
	case gpus > MaxGPUs:
		return nil, 0, refuse(BadTooMany, "samples of %d GPUs, and %d is the most", gpus, MaxGPUs)
	case len(b.Utilization) != gpus || len(b.Memory) != gpus || len(b.Temperature) != gpus || len(b.Power) != gpus ||
		len(b.Held) != gpus:
		return nil, 0, refuse(BadParse, "columns of a block do not fit its %d GPUs", gpus)
	}
	first := len(to)
	var seq, at int64
	for i := range n {
		if b.Seq[i] == none || b.At[i] == none {
			return nil, 0, refuse(BadParse, "a sample without number or time")
		}
		seq, at = seq+b.Seq[i], at+b.At[i]
		when := time.UnixMilli(at).UTC()
		if seq < 1 || seq > maxSeq || b.Seq[i] < 1 || len(to) > 0 && uint64(seq) <= to[len(to)-1].Seq {
			return nil, 0, refuse(BadParse, "numbers of samples do not rise")
		}
		if y := when.Year(); y < minYear || y > maxYear {
			return nil, 0, refuse(BadTime, "a sample's year is %d", y)
		}
		s := Sample{Seq: uint64(seq), At: when}
		if b.GPUs != nil {
			s.GPUs = make([]GPUSample, gpus)
		}
		to = append(to, s)
	}
	names := make([]string, len(b.Users))
	for i, u := range b.Users {
		names[i] = Text(u, MaxNameBytes)
	}
	run := to[first:]
	bad += readings(b.Load, 0, maxLoadPercent, 1, func(i int, v *int) { run[i].Load = v })
	bad += readings(b.HostMemory, 0, maxMiB, 1, func(i int, v *int64) { run[i].MemoryUsed = v })
	for g, id := range b.GPUs {
		if id.Index < 0 || id.Index > maxIndex {
			return nil, 0, refuse(BadParse, "a GPU's index is %d", id.Index)
		}
		uuid := Shaped("uuid", id.UUID)
		for i := range run {
			run[i].GPUs[g].Index, run[i].GPUs[g].UUID = id.Index, uuid
		}
		for _, c := range []column{b.Utilization[g], b.Memory[g], b.Temperature[g], b.Power[g]} {
			if len(c) != n {
				return nil, 0, refuse(BadParse, "a column of %d readings for %d samples", len(c), n)
			}
		}
		bad += readings(b.Utilization[g], 0, maxPercent, 1, func(i int, v *int) { run[i].GPUs[g].Utilization = v })
		bad += readings(b.Memory[g], 0, maxMiB, 1, func(i int, v *int64) { run[i].GPUs[g].MemoryUsed = v })
		bad += readings(b.Temperature[g], minCelsius, maxCelsius, 1,
			func(i int, v *int) { run[i].GPUs[g].Temperature = v })
		bad += readings(b.Power[g], 0, maxWatts*10, 10, func(i int, v *float64) { run[i].GPUs[g].Power = v })
		n, err := holders(b.Held[g], names, run, g)
		if err != nil {
			return nil, 0, err
		}
		bad += n
	}
	return to, bad, nil
}

// readings adds up differences and passes on every possible sum, divided by unit.
func readings[T int | int64 | float64](c column, low, high int64, unit T, set func(int, *T)) (bad int) {
	values := make([]T, len(c))
	var sum int64
	for i, d := range c {
		if d == none {
			continue
		}
		if sum += d; sum < low || sum > high {
			bad++
			continue
		}
		values[i] = T(sum) / unit
		set(i, &values[i])
	}
	return bad
}

// holders reads a row of "held" into GPU g of the samples.
func holders(c column, names []string, run []Sample, g int) (bad int, err error) {
	var users []UserMemory
	next := 0
	for len(c) > 0 {
		if len(c) < 2 || c[0] < int64(next) || c[0] >= int64(len(run)) || c[1] < -1 || c[1] > MaxProcesses ||
			int64(len(c)) < 2+2*c[1] {
			return 0, refuse(BadParse, "the users of a GPU are not as they should be")
		}
		for ; next < int(c[0]); next++ {
			run[next].GPUs[g].Users = users
		}
		count := int(c[1])
		if c = c[2:]; count < 0 {
			users = nil
			continue
		}
		users = make([]UserMemory, count)
		for i := range users {
			place, memory := c[2*i], c[2*i+1]
			if place < 0 || place >= int64(len(names)) {
				return 0, refuse(BadParse, "the users of a GPU are not as they should be")
			}
			if memory < 0 || memory > maxMiB {
				memory = 0
				bad++
			}
			users[i] = UserMemory{User: names[place], Memory: memory}
		}
		c = c[2*count:]
	}
	for ; next < len(run); next++ {
		run[next].GPUs[g].Users = users
	}
	return bad, nil
}
