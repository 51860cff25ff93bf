package board

import (
	"fmt"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// TestOfferIsAlike: who wants several gets them of one model, even if one of these is in use now without a booking.
func TestOfferIsAlike(t *testing.T) {
	b := &Board{GeneratedAt: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	for i, name := range []string{"H100", "A100", "H100"} {
		state := Free
		if i == 2 {
			state = Busy
		}
		b.Hosts = append(b.Hosts, Host{Name: string(rune('a' + i)), GPUs: []GPU{{GPU: snapshot.GPU{Name: name}, State: state}}})
	}
	wish := Wish{GPUs: 2, From: b.GeneratedAt.Add(time.Hour), Until: b.GeneratedAt.Add(2 * time.Hour)}
	var got []string
	for _, u := range wish.Offer(b, &booking.Calendar{}, b.GeneratedAt).Units {
		got = append(got, u.Host.Name)
	}
	if fmt.Sprint(got) != "[a c]" {
		t.Errorf("it offers %v", got)
	}
}

// What is offered nobody has booked until the end; what is to be used now is free now.
// If there is not so much, it is the end of a booking from which on there is.
func TestOffer(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	b := &Board{GeneratedAt: now}
	for i, states := range [][]State{{Free, Free, Busy, Unknown}, {Free, Booked, InUse, Lost}, {Drained}} {
		h := Host{Name: string(rune('a' + i))}
		for i, s := range states {
			g := GPU{GPU: snapshot.GPU{Index: i, Name: "NVIDIA H100"}, State: s}
			if s == Drained {
				g.Reason = ReasonHost
			}
			h.GPUs = append(h.GPUs, g)
		}
		b.Hosts = append(b.Hosts, h)
	}
	book := func(host string, gpu, from, until int) booking.Booking {
		bk := booking.Booking{
			ID: fmt.Sprint(host, gpu, from), Host: host, Target: booking.Target{Index: gpu}, Name: "mira",
			From: at(from),
			Kind: booking.Reserved,
		}
		if until != 0 {
			bk.Until = at(until)
		}
		return bk
	}
	standing := []booking.Booking{book("a", 1, 5, 6), book("b", 1, -1, 20), book("b", 2, -1, 8), book("b", 2, 9, 10),
		book("a", 0, -9, -8)}
	for _, tt := range []struct {
		gpus, from, until int
		oneHost           bool
		want              string
	}{
		{1, 0, 2, false, "[b:0]"}, // the host with the least to spare
		{2, 0, 2, false, "[a:0 a:1]"},
		{3, 0, 2, false, "[a:0 a:1 b:0]"},
		{2, 0, 6, true, "next 6h0m0s"}, // a:1 is booked at 5
		{2, 0, 6, false, "[a:0 b:0]"},
		{2, -1, 5, false, "[a:0 b:0]"},  // six hours from now
		{4, 0, 1, false, "next 8h0m0s"}, // busy and unknown ones may be free at any time
		{4, 0, 2, false, "next 10h0m0s"},
		{5, 0, 1, false, "next 20h0m0s"},
		{6, 0, 1, false, "never"},
		{1, 30, 31, false, "[a:0]"}, // not of the drained host, and no busy one
		{2, 30, 31, true, "[a:0 a:1]"},
		{5, 30, 31, false, "[b:0 b:1 b:2 a:0 a:1]"},
		{3, 30, 31, true, "[b:0 b:1 b:2]"},
		{8, 30, 31, false, "[a:0 a:1 a:2 a:3 b:0 b:1 b:2 c:0]"}, // all but the lost one
		{9, 30, 31, false, "never"},
		{10, 0, 1, false, "never"},
	} {
		w := Wish{GPUs: tt.gpus, OneHost: tt.oneHost, From: at(tt.from), Until: at(tt.until)}
		w.Model = "h100"
		o := w.Offer(b, &booking.Calendar{Bookings: standing}, now)
		if o.Fit != 9 || o.Units != nil && !o.Next.IsZero() {
			t.Errorf("%+v: %d are of the kind, and there are some again at %v", tt, o.Fit, o.Next)
		}
		got := fmt.Sprint(o.Units)
		switch {
		case o.Units == nil && o.Next.IsZero():
			got = "never"
		case o.Units == nil:
			got = "next " + o.Next.Sub(now).String()
		}
		if got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	// All that there are come free when the last of them does.
	only := &Board{GeneratedAt: now, Hosts: []Host{{Name: "b", GPUs: []GPU{{State: Booked}}}}}
	if o := (&Wish{GPUs: 1, From: now, Until: at(1)}).Offer(only,
		&booking.Calendar{Bookings: []booking.Booking{book("b", 0, -1, 2)}}, now); !o.Next.Equal(at(2)) {
		t.Errorf("the only GPU: %+v", o)
	}
	only.Hosts[0].GPUs[0].State = Drained
	for reason, want := range map[string]time.Time{ReasonBooking: at(2), ReasonHost: {}} {
		only.Hosts[0].GPUs[0].Reason = reason
		if o := (&Wish{GPUs: 1, From: now, Until: at(1)}).Offer(only,
			&booking.Calendar{Bookings: []booking.Booking{book("b", 0, -1, 2)}}, now); !o.Next.Equal(want) {
			t.Errorf("out of use by a %s: there is one again at %v, want %v", reason, o.Next, want)
		}
	}
	// Without an end, a booking to come is in the way, and one without an end for ever.
	w := Wish{GPUs: 3, From: now}
	if o := w.Offer(b, &booking.Calendar{Bookings: standing}, now); o.Units != nil || !o.Next.Equal(at(6)) {
		t.Errorf("without an end: %+v", o)
	}
	if o := w.Offer(b, &booking.Calendar{Bookings: append(standing, book("a", 0, 3, 0), book("b", 0, 3, 0))},
		now); o.Units != nil ||
		!o.Next.Equal(at(20)) {
		t.Errorf("others without an end: %+v", o)
	}
}

// Three GPUs are three GPUs, and not one and two slices of another.
func TestAnOfferMixesNoSlices(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	slice := func(uuid string) GPU {
		return GPU{State: Free, Slice: &Slice{}, GPU: snapshot.GPU{UUID: uuid, Name: "NVIDIA A100 MIG 1g.5gb"}}
	}
	whole := GPU{State: Free, GPU: snapshot.GPU{Index: 1, Name: "NVIDIA A100"}}
	b := &Board{Hosts: []Host{{Name: "a", GPUs: []GPU{{Slices: []GPU{slice("MIG-1"), slice("MIG-2")}}, whole}}}}
	for _, tt := range []struct {
		request   Request
		gpus      int
		want      string
		fit, open int
	}{
		{Request{}, 3, "[]", 1, 1},
		{Request{Model: "a100"}, 2, "[]", 1, 1},
		{Request{Model: "a100"}, 1, "[a:1]", 1, 1},
		{Request{Model: "1g.5gb"}, 2, "[a:MIG-1 a:MIG-2]", 2, 2},
		{Request{MIG: true}, 3, "[]", 2, 2},
	} {
		w := Wish{Request: tt.request, GPUs: tt.gpus, From: now, Until: now.Add(time.Hour)}
		o := w.Offer(b, &booking.Calendar{}, now)
		if got := fmt.Sprint(o.Units); got != tt.want || o.Fit != tt.fit || o.Open != tt.open {
			t.Errorf("%+v: %s of %d, %d", tt, got, o.Open, o.Fit)
		}
	}
}

// What others run is named with whose it is, since when, and its memory. What nobody
// knows about is not free.
func TestJobs(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	run := func(person string, hours int, mib int64, alive bool) Process {
		return Process{
			Person: person, Computes: alive,
			Process: snapshot.Process{
				Type: snapshot.Compute, Program: "train.py",
				StartedAt: &snapshot.Time{Time: start.Add(time.Duration(hours) * time.Hour)}, UsedMemory: &mib,
				Alive: &alive,
			},
		}
	}
	eva := booking.Aliases{"elind": "eva"}.Mine("eva")
	silent := Process{Person: "kai", Computes: true, Process: snapshot.Process{Type: snapshot.Compute}}
	for _, tt := range []struct {
		name string
		gpu  GPU
		want string
	}{
		{"neither memory nor start are told", GPU{State: Busy, Processes: []Process{silent}}, "kai 0 "},
		{"somebody's who booked it", GPU{State: InUse, Booking: &Booking{Name: "kai"}}, "unknown 0 "},
		{"two jobs of one", GPU{State: Busy, Processes: []Process{run("kai", 2, 1000, true), run("kai", 1, 500, true)}},
			"kai 1000 12:00, kai 500 11:00"},
		{"two people",
			GPU{State: Contested, Processes: []Process{run("kai", 2, 1000, true), run("mira", 1, 500, true)}},
			"kai 1000 12:00, mira 500 11:00"},
		{"one's own", GPU{State: Busy, Processes: []Process{run("elind", 2, 1000, true)}}, ""},
		{"another's in one's own",
			GPU{
				State: Contested, Booking: &Booking{Name: "eva"},
				Processes: []Process{run("eva", 2, 9, true), run("kai", 2, 1000, true)},
			}, "kai 1000 12:00"},
		{"a dead one", GPU{State: Stuck, Processes: []Process{run("kai", 2, 1000, false)}}, ""},
		{"a dead one beside another's",
			GPU{State: Busy, Processes: []Process{run("kai", 2, 1000, false), run("mira", 1, 500, true)}},
			"mira 500 11:00"},
		{"nobody knows whose", GPU{State: Busy, Reason: ReasonMemory}, "unknown 0 "},
		{"nobody knows", GPU{State: Unknown}, "unknown"},
		{"in use by the one who booked it", GPU{State: InUse, Booking: &Booking{Name: "eva"}}, ""},
		{"free", GPU{State: Free}, ""}, {"booked", GPU{State: Booked, Booking: &Booking{Name: "kai"}}, ""},
		{"lost", GPU{State: Lost}, ""},
	} {
		b := &Board{Hosts: []Host{{Name: "aurora", GPUs: []GPU{{State: Busy}}}, {
			Name: "atlas", GPUs: []GPU{tt.gpu, {GPU: snapshot.GPU{Index: 1}, State: Busy}},
		}}}
		got := ""
		for i, j := range b.Jobs(booking.Booking{Host: "atlas", Target: booking.Target{Index: 0}}, eva) {
			if i > 0 {
				got += ", "
			}
			if j.Place != "atlas:0" {
				t.Errorf("%s: %+v", tt.name, j)
			}
			clock := ""
			if !j.Since.IsZero() {
				clock = j.Since.Format("15:04")
			}
			switch {
			case j.Unknown:
				got += "unknown"
			default:
				got += fmt.Sprint(j.Who, " ", j.Memory, " ", clock)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if whole := b.Jobs(booking.Booking{Host: "atlas", Target: booking.Target{All: true, Index: -1}},
			eva); whole[len(whole)-1].Place != "atlas:1" {
			t.Errorf("%s: the whole host: %+v", tt.name, whole)
		}
	}
}

// TestOffersAlike: who wants several is offered such of one model, where there are enough of one.
func TestOffersAlike(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	b := &Board{GeneratedAt: now}
	for i, models := range [][]string{{"H100", "A10"}, {"A10", "H100", "H100"}, {"A10"}} {
		h := Host{Name: string(rune('a' + i))}
		for i, model := range models {
			h.GPUs = append(h.GPUs, GPU{GPU: snapshot.GPU{Index: i, Name: model}, State: Free})
		}
		b.Hosts = append(b.Hosts, h)
	}
	for _, tt := range []struct {
		gpus    int
		oneHost bool
		want    string
	}{
		{2, false, "[b:1 b:2]"}, {3, false, "[b:1 b:2 a:0]"}, {3, true, "[b:0 b:1 b:2]"},
		{4, false, "[b:0 b:1 b:2 a:0]"},
	} {
		w := Wish{GPUs: tt.gpus, OneHost: tt.oneHost, From: now, Until: now.Add(time.Hour)}
		if got := fmt.Sprint(w.Offer(b, &booking.Calendar{}, now).Units); got != tt.want {
			t.Errorf("%d GPUs, on one host %t: %s, want %s", tt.gpus, tt.oneHost, got, tt.want)
		}
	}
}
