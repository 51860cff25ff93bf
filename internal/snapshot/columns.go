package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Samples are written in blocks. A block is a run of samples with the same list of GPUs,
// stored by column, so that repeated values are adjacent and compress well:
//
//	{"seq":[7,1,1],                                 first, then differences
//	 "at":[1763616000000,20000,20000],              ms since 1970, then differences
//	 "load_percent":[14,1,0],                       of the host, whose columns are left out if all is unknown
//	 "host_memory_used_mib":[41000,12,-3],
//	 "gpus":[{"index":0,"uuid":"GPU-1"}],
//	 "utilization_percent":[[3,0,-1]],              a row for each GPU
//	 "memory_used_mib":[[81000,null,0]],
//	 "temperature_celsius":[[61,0,1]],
//	 "power_draw_dw":[[2971,4,-12]],                tenths of a watt
//	 "users":["ann","bob"],
//	 "held":[[0,1,0,80500, 2,0]]}
//
// A reading is the difference to the previous known one, the first to zero; null is
// unknown. A row of "held" lists the changes of the users of a GPU: the index of the
// sample, the number of users, and for each the index in "users" and the MiB held. The
// number is -1 if processes could not be read. MIG devices are listed in "gpus" with
// their own UUIDs.
type block struct {
	Seq         column   `json:"seq"`
	At          column   `json:"at"`
	Load        column   `json:"load_percent,omitempty"`
	HostMemory  column   `json:"host_memory_used_mib,omitempty"`
	GPUs        []gpuID  `json:"gpus"`
	Utilization []column `json:"utilization_percent"`
	Memory      []column `json:"memory_used_mib"`
	Temperature []column `json:"temperature_celsius"`
	Power       []column `json:"power_draw_dw"`
	Users       []string `json:"users"`
	Held        []column `json:"held"`
}

type gpuID struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid,omitempty"`
}

// column is a JSON array of integers and nulls; none stands for null.
type column []int64

const none = math.MinInt64

func (c column) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+3*len(c))
	out = append(out, '[')
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		if v == none {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendInt(out, v, 10)
		}
	}
	return append(out, ']'), nil
}

// maxDigits is enough for every reading, and the sum of a whole file of such numbers
// cannot overflow.
const maxDigits = 15

// UnmarshalJSON reads what MarshalJSON writes. The decoder has checked that data is JSON.
func (c *column) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return errors.New("not a list of integers")
	}
	data = bytes.TrimSpace(data[1 : len(data)-1])
	out := make(column, 0, bytes.Count(data, []byte{','})+1)
	for more := len(data) > 0; more; {
		var text []byte
		text, data, more = bytes.Cut(data, []byte{','})
		text = bytes.TrimSpace(text)
		v := int64(none)
		if string(text) != "null" {
			var err error
			if v, err = strconv.ParseInt(string(text), 10, 64); err != nil ||
				len(bytes.TrimPrefix(text, []byte{'-'})) > maxDigits {
				return errors.New("not a list of integers")
			}
		}
		out = append(out, v)
	}
	*c = out
	return nil
}

// EncodeSamples returns samples as a JSON array of blocks, in one line. Power
// is kept to a tenth of a watt and time to a millisecond; nil stays nil.
func EncodeSamples(samples []Sample) ([]byte, error) {
	blocks := []block{}
	for len(samples) > 0 {
		n := 1
		for n < len(samples) && sameGPUs(samples[0].GPUs, samples[n].GPUs) {
			n++
		}
		b, err := newBlock(samples[:n])
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		samples = samples[n:]
	}
	return json.Marshal(blocks)
}

func sameGPUs(a, b []GPUSample) bool {
	return (a == nil) == (b == nil) &&
		slices.EqualFunc(a, b, func(a, b GPUSample) bool { return a.Index == b.Index && a.UUID == b.UUID })
}

func newBlock(samples []Sample) (block, error) {
	n, gpus := len(samples), samples[0].GPUs
	b := block{Seq: make(column, n), At: make(column, n), Users: []string{}}
	for i, s := range samples {
		at := s.At.UnixMilli()
		if err := inYears(s.At.UTC()); err != nil || s.At.IsZero() || s.Seq > maxSeq {
			return b, fmt.Errorf("encoding sample %d: its time or number is out of range", s.Seq)
		}
		b.Seq[i], b.At[i] = int64(s.Seq), at
	}
	differences(b.Seq)
	differences(b.At)
	b.Load = known(readingsColumn(samples, 1, func(s *Sample) *int { return s.Load }))
	b.HostMemory = known(readingsColumn(samples, 1, func(s *Sample) *int64 { return s.MemoryUsed }))
	if gpus == nil {
		return b, nil
	}
	b.GPUs = make([]gpuID, len(gpus))
	for _, columns := range []*[]column{&b.Utilization, &b.Memory, &b.Temperature, &b.Power, &b.Held} {
		*columns = make([]column, len(gpus))
	}
	places := map[string]int64{}
	for g := range gpus {
		b.GPUs[g] = gpuID{gpus[g].Index, gpus[g].UUID}
		b.Utilization[g] = readingsColumn(samples, 1, func(s *Sample) *int { return s.GPUs[g].Utilization })
		b.Memory[g] = readingsColumn(samples, 1, func(s *Sample) *int64 { return s.GPUs[g].MemoryUsed })
		b.Temperature[g] = readingsColumn(samples, 1, func(s *Sample) *int { return s.GPUs[g].Temperature })
		b.Power[g] = readingsColumn(samples, 10, func(s *Sample) *float64 { return s.GPUs[g].Power })
		b.Held[g] = b.usersColumn(samples, g, places)
	}
	return b, nil
}

// usersColumn returns the row of "held" of GPU g. places has the index of each user in "users".
func (b *block) usersColumn(samples []Sample, g int, places map[string]int64) column {
	held := column{}
	for i := range samples {
		users := samples[i].GPUs[g].Users
		if i > 0 && sameUsers(samples[i-1].GPUs[g].Users, users) {
			continue
		}
		if held = append(held, int64(i)); users == nil {
			held = append(held, -1)
			continue
		}
		held = append(held, int64(len(users)))
		for _, u := range users {
			place, ok := places[u.User]
			if !ok {
				place = int64(len(b.Users))
				places[u.User] = place
				b.Users = append(b.Users, u.User)
			}
			held = append(held, place, u.Memory)
		}
	}
	return held
}

// readingsColumn returns the column of one reading, times unit. A reading that nothing can have is
// written as unknown.
func readingsColumn[T int | int64 | float64](samples []Sample, unit T, of func(*Sample) *T) column {
	c := make(column, len(samples))
	for i := range samples {
		c[i] = none
		if p := of(&samples[i]); p != nil && math.Abs(float64(*p)) <= maxMiB {
			c[i] = int64(math.Round(float64(*p * unit)))
		}
	}
	differences(c)
	return c
}

// known is the column, or nil if all of it is unknown.
func known(c column) column {
	if slices.ContainsFunc(c, func(v int64) bool { return v != none }) {
		return c
	}
	return nil
}

func differences(c column) {
	var last int64
	for i, v := range c {
		if v != none {
			c[i] = v - last
			last = v
		}
	}
}

func sameUsers(a, b []UserMemory) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
