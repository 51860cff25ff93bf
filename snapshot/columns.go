package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Samples are written in blocks. A block is a run of samples of one list of
// GPUs, turned by its columns so that what repeats stands side by side:
//
//	{"seq":[7,1,1],                                 first, then differences
//	 "at":[1763616000000,20000,20000],              ms since 1970, then differences
//	 "gpus":[{"index":0,"uuid":"GPU-1"}],
//	 "utilization_percent":[[3,0,-1]],              a row for each GPU
//	 "memory_used_mib":[[81000,null,0]],
//	 "temperature_celsius":[[61,0,1]],
//	 "power_draw_dw":[[2971,4,-12]],                tenths of a watt
//	 "users":["ann","bob"],
//	 "held":[[0,1,0,80500, 2,0]]}
//
// A reading is the difference to the one before that is known, the first to
// zero; null is unknown. A row of "held" tells when the users of a GPU change:
// the index of the sample, the number of users, and for each its place in
// "users" and the MiB it holds. The number is -1 where processes could not be
// read.
type block struct {
	Seq         column   `json:"seq"`
	At          column   `json:"at"`
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

var errColumn = errors.New("not a list of integers")

// UnmarshalJSON reads what MarshalJSON writes. It is where nearly all bytes of
// a drop go, so it reads digits itself.
func (c *column) UnmarshalJSON(data []byte) error {
	if len(data) < 2 || data[0] != '[' {
		return errColumn
	}
	data = data[1:]
	commas := 0
	for _, b := range data {
		if b == ',' {
			commas++
		}
	}
	out := make(column, 0, commas+1)
	for i := 0; ; {
		i = skipSpace(data, i)
		if i < len(data) && data[i] == ']' && len(out) == 0 {
			break
		}
		v, n := int64(none), 4
		if i+4 > len(data) || string(data[i:i+4]) != "null" {
			if v, n = digits(data[i:]); n == 0 {
				return errColumn
			}
		}
		out = append(out, v)
		i = skipSpace(data, i+n)
		if i >= len(data) || data[i] != ',' && data[i] != ']' {
			return errColumn
		}
		if data[i] == ']' {
			break
		}
		i++
	}
	*c = out
	return nil
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// digits reads an integer of at most 15 digits, which holds every reading and
// cannot overflow when a whole file of them is added up.
func digits(data []byte) (v int64, n int) {
	negative := len(data) > 0 && data[0] == '-'
	if negative {
		n++
	}
	first := n
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		v = v*10 + int64(data[n]-'0')
		if n++; n-first > 15 {
			return 0, 0
		}
	}
	if n == first {
		return 0, 0
	}
	if negative {
		v = -v
	}
	return v, n
}

// EncodeSamples returns samples as a JSON array of blocks, in one line. Power
// is kept to a tenth of a watt and time to a millisecond; nil stays nil.
func EncodeSamples(samples []Sample) ([]byte, error) {
	blocks, err := blocksOf(samples)
	if err != nil {
		return nil, err
	}
	return json.Marshal(blocks)
}

func blocksOf(samples []Sample) ([]block, error) {
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
	return blocks, nil
}

func sameGPUs(a, b []GPUSample) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if a[i].Index != b[i].Index || a[i].UUID != b[i].UUID {
			return false
		}
	}
	return true
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
	if gpus == nil {
		return b, nil
	}
	b.GPUs = make([]gpuID, len(gpus))
	b.Utilization, b.Memory = make([]column, len(gpus)), make([]column, len(gpus))
	b.Temperature, b.Power = make([]column, len(gpus)), make([]column, len(gpus))
	b.Held = make([]column, len(gpus))
	places := map[string]int64{}
	for g := range gpus {
		b.GPUs[g] = gpuID{gpus[g].Index, gpus[g].UUID}
		util, mem, temp, power := make(column, n), make(column, n), make(column, n), make(column, n)
		held := column{}
		for i := range samples {
			s := &samples[i].GPUs[g]
			util[i], mem[i], temp[i], power[i] = known(s.Utilization), known(s.MemoryUsed), known(s.Temperature), none
			if s.Power != nil && math.Abs(*s.Power) < 1e9 {
				power[i] = int64(math.Round(*s.Power * 10))
			}
			if i > 0 && sameUsers(samples[i-1].GPUs[g].Users, s.Users) {
				continue
			}
			held = append(held, int64(i))
			if s.Users == nil {
				held = append(held, -1)
				continue
			}
			held = append(held, int64(len(s.Users)))
			for _, u := range s.Users {
				place, ok := places[u.User]
				if !ok {
					place = int64(len(b.Users))
					places[u.User] = place
					b.Users = append(b.Users, u.User)
				}
				held = append(held, place, u.Memory)
			}
		}
		differences(util)
		differences(mem)
		differences(temp)
		differences(power)
		b.Utilization[g], b.Memory[g], b.Temperature[g], b.Power[g], b.Held[g] = util, mem, temp, power, held
	}
	return b, nil
}

func known[T int | int64](p *T) int64 {
	if p == nil {
		return none
	}
	return int64(*p)
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

func sameUsers(a, b []UserMemory) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// maxSeq keeps sums of differences far from overflow; at one snapshot a second
// it lasts for three million years.
const maxSeq = 1e14

// DecodeSamples reads what [EncodeSamples] writes. Readings that cannot be are
// taken as unknown and counted in bad. Samples whose users did not change share
// the slice; treat it as read-only.
func DecodeSamples(data []byte) (samples []Sample, bad int, err error) {
	if _, err := document(data); err != nil {
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
	case gpus > MaxGPUs:
		return nil, 0, refuse(BadTooMany, "samples of %d GPUs, and %d is the most", gpus, MaxGPUs)
	case len(b.Utilization) != gpus || len(b.Memory) != gpus || len(b.Temperature) != gpus || len(b.Power) != gpus || len(b.Held) != gpus:
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
	for g, id := range b.GPUs {
		if id.Index < 0 || id.Index > maxIndex {
			return nil, 0, refuse(BadParse, "a GPU's index is %d", id.Index)
		}
		uuid := Text(id.UUID, MaxNameBytes)
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
		bad += readings(b.Temperature[g], minCelsius, maxCelsius, 1, func(i int, v *int) { run[i].GPUs[g].Temperature = v })
		bad += readings(b.Power[g], 0, maxWatts*10, 10, func(i int, v *float64) { run[i].GPUs[g].Power = v })
		n, err := holders(b.Held[g], names, run, g)
		if err != nil {
			return nil, 0, err
		}
		bad += n
	}
	return to, bad, nil
}

// readings adds up differences and hands on every sum that can be, divided by unit.
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
	wrong := refuse(BadParse, "the users of a GPU are not as they should be")
	var users []UserMemory
	next := 0
	for len(c) > 0 {
		if len(c) < 2 || c[0] < int64(next) || c[0] >= int64(len(run)) || c[1] < -1 || c[1] > MaxProcesses || int64(len(c)) < 2+2*c[1] {
			return 0, wrong
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
				return 0, wrong
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
