package sitegen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// sliced is a snapshot of 64 GPUs with 1,024 slices.
func sliced(host string) *snapshot.Snapshot {
	s := crowd(1)
	g := s.GPUs[0]
	s.Host = host
	g.MIGMode, s.GPUs = "Enabled", nil
	for i := range snapshot.MaxGPUs {
		g.Index, g.UUID, g.MIGDevices = i, fmt.Sprintf("GPU-%s-%032d", host, i), nil
		for j := range 16 {
			g.MIGDevices = append(g.MIGDevices, snapshot.MIGDevice{
				Index: j, UUID: sliceUUID(host, 16*i+j), Profile: "1g.10gb", MemoryTotal: new(int64(10000)),
				MemoryUsed: new(int64(1)),
			})
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

func sliceUUID(host string, i int) string { return fmt.Sprintf("MIG-%s-%032d", host, i) }

// manyBookings is the input of a merge of two hosts with 20,000 bookings of what a function
// names; each comes after the last one of its place.
func manyBookings(place func(host string, i int) booking.Target, begun bool) board.Input {
	cal := &booking.Calendar{File: "comments.json"}
	for i := range 20_000 {
		from := boardtest.Now.Add(time.Duration(i) * time.Minute)
		if begun {
			from = boardtest.Now.Add(-time.Hour)
		}
		host := fmt.Sprint("gpu0", 1+i%2)
		cal.Bookings = append(cal.Bookings, booking.Booking{ID: fmt.Sprintf("id%07d", i), Host: host,
			Name: fmt.Sprintf("name%05d", i), Written: fmt.Sprintf("name%05d", i),
			From: from, Until: from.Add(48 * time.Hour), Target: place(host, i/2), Line: i, Col: 3,
			Kind:    booking.Reserved,
			Comment: "a job"})
	}
	in := board.Input{Now: boardtest.Now, Calendar: cal, Reports: map[string]board.Report{}}
	for _, name := range []string{"gpu01", "gpu02"} {
		in.Hosts = append(in.Hosts, inventory.Host{Name: name})
		in.Reports[name] = board.Report{Snapshot: sliced(name)}
	}
	return in
}

func bookedPlaces() map[string]func(host string, i int) booking.Target {
	return map[string]func(host string, i int) booking.Target{
		"slices": func(host string, i int) booking.Target {
			return booking.Target{UUID: sliceUUID(host, i%1024), Index: -1}
		},
		"GPUs":  func(_ string, i int) booking.Target { return booking.Target{Index: i % 64} },
		"hosts": func(string, int) booking.Target { return booking.Target{All: true, Index: -1} },
	}
}

// The front page and the page of a host have a bounded size, whatever is booked: they list the
// next bookings, and one that stands for the others.
func TestPagesOfManyBookingsAreBounded(t *testing.T) {
	for name, place := range bookedPlaces() {
		for _, begun := range []bool{false, true} {
			b, _ := board.Merge(manyBookings(place, begun))
			in := render.Input{Board: b, Site: render.Site{Zone: time.UTC}}
			files, err := boardtest.Files(in, func(in render.Input) error { return page.Files(in, nil) })
			if err != nil {
				t.Fatal(err)
			}
			size := map[string]int{}
			for _, f := range files {
				size[f.Path] = len(f.Content)
			}
			for path, most := range map[string]int{
				"index.html": 400 << 10, "hosts/gpu01/index.html": 2640 << 10, "book/index.html": 600 << 10,
				"bookings/index.html": 1500 << 10,
			} {
				if size[path] == 0 || size[path] > most {
					t.Errorf("%s booked, begun %v: %s has %d KiB, and %d are the most", name, begun, path,
						size[path]>>10, most>>10)
				}
			}
		}
	}
}

// What a row shows of the bookings in force is bounded for each GPU and for each host, also where
// they are maintenance or have long comments: a small comments.json does not make a large site.
func TestBookingsInForceAreBounded(t *testing.T) {
	for _, kind := range []booking.Kind{booking.Reserved, booking.Maintenance} {
		in := manyBookings(bookedPlaces()["hosts"], true)
		in.Calendar.Bookings = in.Calendar.Bookings[:200]
		for i := range in.Calendar.Bookings {
			b := &in.Calendar.Bookings[i]
			b.Kind, b.Comment = kind, strings.Repeat("c", booking.MaxCommentBytes)
		}
		b, _ := board.Merge(in)
		for g := range b.Hosts[0].Rows() {
			if len(g.Others) != 1 || g.MoreOthers != 98 {
				t.Fatalf("%s: of 100 bookings, a row lists one, %d others, and counts %d", kind, len(g.Others),
					g.MoreOthers)
			}
		}
		in.Reports["gpu02"].Snapshot.GPUs = in.Reports["gpu02"].Snapshot.GPUs[:1]
		b, _ = board.Merge(in)
		if g := &b.Hosts[1].GPUs[0]; len(g.Others) != 16 || g.MoreOthers != 83 {
			t.Errorf("%s: of 100 bookings, the GPU of a small host lists one, %d others, and counts %d",
				kind, len(g.Others), g.MoreOthers)
		}
		if _, bytes := sizeOfSite(t, render.Input{Board: b, Site: render.Site{Zone: time.UTC}}); bytes > 24<<20 {
			t.Errorf("%s: 400 KiB of bookings make a site of %d MiB", kind, bytes>>20)
		}
	}
}

func BenchmarkManyBookings(b *testing.B) {
	for name, place := range bookedPlaces() {
		in := manyBookings(place, true)
		b.Run("merge/"+name, func(b *testing.B) {
			for b.Loop() {
				board.Merge(in)
			}
		})
		made, _ := board.Merge(in)
		b.Run("pages/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := page.Files(render.Input{Board: made, Site: render.Site{Zone: time.UTC}}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
