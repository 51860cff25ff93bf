package board_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// secretive is a board with a person in every place that can name one.
func secretive(t *testing.T) *board.Board {
	t.Helper()
	dead := gone(9000)
	dead.User, dead.Program = "zoe-secret", "hidden-secret.py"
	dead.Children = []snapshot.Child{{PID: 4, User: "child-secret", Program: "child-secret.py"}}
	p := proc("eva-secret", snapshot.Compute, 9000)
	p.Program, p.Container, p.UID = "model-secret.py", "c0ffee-secret", new(int64(4242))
	other := by("jun-secret", booking.Reserved)
	other.Comment, other.By = "call eva-secret", "by-secret"
	next := other
	next.From, next.Until, next.Name = now.Add(2*time.Hour), now.Add(3*time.Hour), "next-secret"
	stray := other
	stray.Host = "gpu77"
	s := scene{gpu: a100(), procs: []snapshot.Process{p, dead}, booked: []booking.Booking{other, by("two-secret", booking.Reserved), next, stray}}
	s.recent = &history.Recent{Users: []history.User{{Name: "past-secret", Mean2h: new(1.0)}}}
	b, _ := s.merge()
	s.age = time.Hour
	old, _ := s.merge()
	b.Hosts = append(b.Hosts, old.Hosts...)
	s.age, s.gpu = 0, sliced(1)
	s.procs = []snapshot.Process{on(p, 1, 0)}
	parts, _ := s.merge()
	if len(parts.Hosts[0].GPUs[0].Slices[0].Processes) != 1 {
		t.Fatal("the scene has no slice with a process")
	}
	b.Hosts = append(b.Hosts, parts.Hosts...)
	b.Hosts[0].Node.Interfaces = []snapshot.Interface{{Name: "eno1", Addrs: []string{"10.0.0.1-secret"}}}
	b.Hosts[0].Node.DiskUsers = []snapshot.DiskUser{{Path: "/home", User: "disk-secret"}}
	if b.NextFree == nil {
		t.Fatal("the scene has nothing that comes free")
	}
	return b
}

// walk calls f for every string in a value.
func walk(v reflect.Value, path string, f func(path, s string)) {
	switch v.Kind() {
	case reflect.String:
		f(path, v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), path, f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walk(it.Key(), path, f)
			walk(it.Value(), path, f)
		}
	}
}

func TestMaskReachesEveryName(t *testing.T) {
	for _, users := range []board.UserPrivacy{board.UsersInitials, board.UsersHash, board.UsersNone} {
		b := secretive(t)
		before := fmt.Sprintf("%+v", b.Hosts)
		masked := b.Mask(board.Privacy{Users: users, Programs: board.ProgramsHidden, Salt: []byte("salt")})
		walk(reflect.ValueOf(*masked), "Board", func(path, s string) {
			if strings.Contains(s, "secret") {
				t.Errorf("users %s: %s still says %q", users, path, s)
			}
		})
		if fmt.Sprintf("%+v", b.Hosts) != before {
			t.Errorf("users %s: masking changed the board itself", users)
		}
		if masked.Hosts[0].GPUs[0].State != board.Contested {
			t.Errorf("users %s: the state became %s", users, masked.Hosts[0].GPUs[0].State)
		}
	}
}

func TestMaskLevels(t *testing.T) {
	b := secretive(t)
	if b.Mask(board.Privacy{}) != b || b.Mask(board.Privacy{Users: board.UsersFull, Programs: board.ProgramsShown}) != b {
		t.Error("full is not the board itself")
	}
	name := func(p board.Privacy) string { return b.Mask(p).Hosts[0].GPUs[0].Booking.Name }
	if got := name(board.Privacy{Users: board.UsersInitials}); got != "j.s." {
		t.Errorf("initials %q", got)
	}
	one, two := name(board.Privacy{Users: board.UsersHash, Salt: []byte("a")}), name(board.Privacy{Users: board.UsersHash, Salt: []byte("b")})
	if one == two || !strings.HasPrefix(one, "user-") {
		t.Errorf("hashes %q and %q of two sites", one, two)
	}
	m := b.Mask(board.Privacy{Users: board.UsersNone})
	if len(m.Users) != 1 || m.Users[0].Name != board.Someone || m.Users[0].Reserved != 2 {
		t.Errorf("users %+v, want one for all, who has two bookings", m.Users)
	}
	if p := m.Hosts[0].GPUs[0].Processes[0].Program; p == "" {
		t.Error("programs are hidden, and only people were to be")
	}
	if p := b.Mask(board.Privacy{Programs: board.ProgramsHidden}).Hosts[0].GPUs[0].Processes[0]; p.Program != "" || p.Person == board.Someone {
		t.Errorf("process %+v, want its person and no program", p)
	}
}
