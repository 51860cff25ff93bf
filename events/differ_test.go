package events

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/board"
	"gpuboard/snapshot"
)

// A fleet is hosts that change at random. What did not change is shared by the
// boards, as those of a [board.Merger] do.
type fleet struct {
	*rand.Rand
	at    time.Time
	hosts []board.Host
}

func (f *fleet) gpus() []board.GPU {
	var list []board.GPU
	for i := range f.IntN(4) {
		g := board.GPU{State: board.States()[f.IntN(9)], Missing: f.IntN(12) == 0}
		g.Index, g.UUID = i, fmt.Sprint("GPU-", f.IntN(4))
		if f.IntN(6) == 0 {
			g.UUID = ""
		}
		if f.IntN(2) == 0 {
			g.Processes = []board.Process{{Person: []string{"eva", "jun"}[f.IntN(2)], Process: snapshot.Process{Type: snapshot.Compute}}}
		}
		if g.State == board.Booked && f.IntN(2) == 0 {
			g.NoShow, g.Booking = true, &board.Booking{ID: fmt.Sprint(f.IntN(4)), Name: "eva", From: f.at}
		}
		list = append(list, g)
	}
	return list
}

func (f *fleet) host() board.Host {
	return board.Host{Name: fmt.Sprint("host", f.IntN(6)), State: board.Up, SnapshotAt: f.at, GPUs: f.gpus()}
}

func (f *fleet) change() {
	f.hosts = slices.Clone(f.hosts)
	if len(f.hosts) == 0 {
		f.hosts = append(f.hosts, f.host())
		return
	}
	h := &f.hosts[f.IntN(len(f.hosts))]
	switch f.IntN(15) {
	case 0, 1, 2:
		h.GPUs, h.SnapshotAt, h.State = f.gpus(), f.at, board.Up
	case 3, 4:
		h.SnapshotAt, h.GPUs = f.at, slices.Clone(h.GPUs)
	case 5:
		h.SnapshotAt = f.at
	case 12, 13, 14: // as by a booking, of the same news
		h.GPUs = f.gpus()
	case 6, 7:
		h.State = []board.HostState{board.Up, board.Stale, board.Down, board.Never, board.Maintenance}[f.IntN(5)]
	case 8:
		f.hosts = append(f.hosts, f.host()) // maybe a second one of that name
	case 9:
		f.hosts = f.hosts[1:]
	case 10:
		f.Shuffle(len(f.hosts), reflect.Swapper(f.hosts))
	case 11:
		if f.IntN(3) == 0 {
			f.hosts = nil
		}
	}
}

// A Differ that goes on finds what one finds that begins, and remembers the same,
// whatever changes, and whether what came of a board was remembered or not.
func TestDifferIsDiff(t *testing.T) {
	shared, all := 0, 0
	for seed := range 80 {
		f := &fleet{Rand: rand.New(rand.NewPCG(2, uint64(seed))), at: start}
		for i := range f.IntN(5) {
			h := f.host()
			h.Name = fmt.Sprint("host", i)
			f.hosts = append(f.hosts, h)
		}
		var k Differ
		var mem Memory
		var old []Memory
		for step := range 60 {
			for range []int{0, 0, 1, 1, 1, 2}[f.IntN(6)] {
				f.change()
			}
			f.at = f.at.Add([]time.Duration{0, time.Second, time.Minute, 7 * time.Hour, 31 * 24 * time.Hour}[f.IntN(5)])
			b := &board.Board{GeneratedAt: f.at, Hosts: f.hosts}
			for i := range f.IntN(4) {
				b.Bookings = append(b.Bookings, board.Booking{ID: fmt.Sprint(i), Host: "host1", From: start.Add(time.Hour), Until: f.at.Add(time.Duration(f.IntN(9)) * time.Hour)})
			}
			before, err := json.Marshal(mem)
			if err != nil {
				t.Fatal(err)
			}
			wantEvents, want := Diff(mem, b)
			events, got := k.Diff(mem, b)
			if !reflect.DeepEqual(events, wantEvents) {
				t.Fatalf("seed %d, step %d: other events (- as they should be):\n%s", seed, step, cmp.Diff(wantEvents, events))
			}
			if !got.Same(want) || !reflect.DeepEqual(roundTrip(t, got), roundTrip(t, want)) {
				t.Fatalf("seed %d, step %d: another memory (- as it should be):\n%s", seed, step, cmp.Diff(want, got))
			}
			if after, _ := json.Marshal(mem); string(after) != string(before) {
				t.Fatalf("seed %d, step %d changed the last memory", seed, step)
			}
			all++
			if sameHosts(mem, got) {
				shared++
			}
			switch f.IntN(12) {
			case 0, 1: // it could not be written down
			case 2:
				mem = roundTrip(t, got)
			case 3:
				if len(old) > 0 {
					mem = old[f.IntN(len(old))]
				}
			case 4:
				if got.Same(mem) {
					break // as the generator leaves its file then
				}
				fallthrough
			default:
				old = append(old, mem)
				mem = got
			}
		}
	}
	if shared < all/10 || shared > all*9/10 {
		t.Errorf("%d of %d memories were those of before: this proves too little", shared, all)
	}
}
