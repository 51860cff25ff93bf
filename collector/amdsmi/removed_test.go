package amdsmi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// states are what the board makes of each row of a reading, all processes being alive.
func states(t testing.TB, r Reading) (list []board.State) {
	t.Helper()
	s := snapshotOf(r)
	s.CollectedAt = snapshot.TimeOf(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	for i := range s.Processes {
		s.Processes[i].Alive, s.Processes[i].User = new(true), "ada"
	}
	if found := s.Validate(); len(found) > 0 {
		t.Fatalf("the reading is not valid: %+v", found)
	}
	b, _ := board.Merge(board.Input{Now: s.CollectedAt.Add(time.Second), Hosts: []inventory.Host{{Name: "amd01"}},
		Reports: map[string]board.Report{"amd01": {Snapshot: s}}})
	for _, g := range b.Hosts[0].GPUs {
		if len(g.Slices) == 0 {
			list = append(list, g.State)
		}
		for _, slice := range g.Slices {
			list = append(list, slice.State)
		}
	}
	return list
}

// TestStates: a busy card is never free, one that nobody uses is, and without KFD none is.
func TestStates(t *testing.T) {
	busy := twoCards(21037355008, idleBytes) + kfdProcess(4001, idA, map[int]int64{idA: 21008920000, idB: 0})
	partitions := driverLoaded + noProcesses + sysCard(1, 3, "0123456789abcdef", 3<<30) +
		kfdNode(1, 3, 0, idA, 12<<30) +
		kfdNode(2, 3, 1, idB, 12<<30) + kfdProcess(4001, idB, map[int]int64{idB: 3 << 30})
	for _, c := range []struct {
		name string
		r    Reading
		want string
	}{
		{"idle", readTree(tree(twoCards(idleBytes, idleBytes)), tree()), "[free free]"},
		{"idle with 283 MiB", readTree(tree(twoCards(283<<20, idleBytes)), tree()), "[free free]"},
		{"busy", readTree(tree(busy), tree()), "[busy free]"},
		{"without KFD", readTree(without(tree(twoCards(idleBytes, idleBytes)), "class/kfd"), tree()),
			"[unknown unknown]"},
		{"KFD without its processes",
			readTree(without(tree(twoCards(idleBytes, idleBytes)), "class/kfd/kfd/proc"), tree()), "[unknown unknown]"},
		{"a tool that failed",
			readWith(tree(twoCards(idleBytes, idleBytes)), tree(), Answer{}, Options{Failed: "amd-smi failed"}),
			"[unknown unknown]"},
		{"partitions", readTree(tree(partitions), tree()), "[free busy]"},
	} {
		if got := fmt.Sprint(states(t, c.r)); got != c.want {
			t.Errorf("%s: %s, want %s; unknown %s", c.name, got, c.want, unknowns(c.r))
		}
	}
}

// TestNothingTakenAwayFrees: each file of a busy node, and each field of the tool's answers, taken away in turn.
func TestNothingTakenAwayFrees(t *testing.T) {
	display := tree(`812/fd/7 -> /dev/dri/renderD129
		812/fdinfo/7: drm-driver: amdgpu\ndrm-pdev: 0000:43:00.0\ndrm-client-id: 217\ndrm-memory-vram: 3145728 KiB`)
	sys := tree(twoCards(21037355008, 3<<30), kfdProcess(4001, idA, map[int]int64{idA: 21008920000, idB: 0}),
		kfdProcess(4002, idB, map[int]int64{idA: 0, idB: 1 << 20}))
	out := shapes()["6.3"]
	tool := func(texts [3]string) Answer {
		return ParseSMI(nil, []byte(texts[0]), []byte(texts[1]), []byte(texts[2]))
	}
	check := func(what string, r Reading) {
		t.Helper()
		for i, state := range states(t, r) {
			if state == board.Free {
				t.Errorf("without %s GPU %d of %d is free: %s, unknown %s", what, i, len(r.GPUs), used(r), unknowns(r))
			}
		}
	}
	for name, a := range map[string]Answer{"": {}, "a tool": tool(out)} {
		dirs := map[string]bool{}
		check("anything", readWith(sys, display, a, Options{}))
		for path := range sys {
			check(name+" "+path, readWith(without(sys, path), display, a, Options{}))
			for dir := path; strings.Contains(dir, "/"); {
				dir = dir[:strings.LastIndexByte(dir, '/')]
				dirs[dir] = true
			}
			unreadable := maps.Clone(sys)
			unreadable[path] = &fstest.MapFile{Data: []byte("N/A"), Mode: 0o444}
			check(name+" the text of "+path, readWith(unreadable, display, a, Options{}))
		}
		for dir := range dirs {
			if dir != "class/kfd/kfd/proc/4001" && dir != "class/kfd/kfd/proc/4002" { // they have ended then
				check(name+" "+dir, readWith(without(sys, dir), display, a, Options{}))
			}
		}
		for path := range display {
			check(name+" "+path, readWith(sys, without(display, path), a, Options{}))
		}
	}
	leaf := regexp.MustCompile(`"[a-z_0-9]+":("[^"]*"|-?[0-9.]+),?`)
	for i, text := range out {
		for n, at := range leaf.FindAllStringIndex(text, -1) {
			if n%2 != 0 {
				continue
			}
			less := out
			less[i] = text[:at[0]] + strings.TrimPrefix(text[at[1]:], ",")
			less[i] = regexp.MustCompile(`,([}\]])`).ReplaceAllString(less[i], "$1")
			check(text[at[0]:at[1]], readWith(sys, display, tool(less), Options{}))
			less[i] = text[:at[0]] // cut off
			check("all from "+text[at[0]:at[1]], readWith(sys, display, tool(less), Options{}))
		}
	}
}

// FuzzRead: whatever the tools write and the files hold, a reading is valid, its indices are one after the other, and
// no card is free that KFD has a process on.
func FuzzRead(f *testing.F) {
	for _, out := range shapes() {
		f.Add([]byte(out[0]), []byte(out[1]), []byte(out[2]), "class/kfd/kfd/proc/4002/vram_51110", "1048576")
	}
	f.Add([]byte(`{"card0":{"Card series":"[x","VRAM Total Memory (B)":"-1"},"system":{"PID7":"a, 1, 5"}}`),
		[]byte("[[[[{"), []byte(`{"gpu":{}}`),
		"class/drm/card2/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=x")
	f.Add([]byte(`[{"gpu":0,"bus":{"bdf":"43:00.0"}}]`), []byte(nil), []byte(nil), "class/kfd/kfd/proc/4001/vram_4711",
		"99999999999999999")
	f.Fuzz(func(t *testing.T, static, metric, process []byte, path, text string) {
		sys := tree(twoCards(21037355008, idleBytes), kfdProcess(4001, idA, map[int]int64{idA: 21008920000}))
		if fs.ValidPath(path) && path != "." {
			sys[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
		}
		for _, a := range []Answer{ParseSMI(static, static, metric, process), ParseROCm(static), ParseROCm(metric)} {
			for _, files := range []fs.FS{sys, fstest.MapFS{}} {
				r := readWith(files, fstest.MapFS{}, a, Options{First: 3, Integrated: len(text)%2 == 0})
				for i, g := range r.GPUs {
					if g.Index != 3+i {
						t.Fatalf("GPU %d has the index %d", i, g.Index)
					}
				}
				all := snapshotOf(r)
				before, _ := json.Marshal(all)
				if found := all.Validate(); len(found) > 0 {
					t.Fatalf("not valid: %+v", found)
				}
				if after, _ := json.Marshal(all); !bytes.Equal(before, after) {
					t.Fatalf("changed by its check:\n%s\n%s", before, after)
				}
				first := slices.IndexFunc(r.GPUs, func(g snapshot.GPU) bool { return g.PCIBusID == "00000000:03:00.0" })
				if list := states(t, r); !strings.HasPrefix(path, "class") && first >= 0 && len(list) == len(r.GPUs) &&
					list[first] == board.Free {
					t.Fatalf("a card with a process is free: %+v", r)
				}
			}
		}
	})
}
