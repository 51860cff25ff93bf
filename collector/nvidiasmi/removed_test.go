package nvidiasmi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// known are the readings of a GPU that are known, by their paths.
func known(t *testing.T, g snapshot.GPU) map[string]bool {
	t.Helper()
	g.ProcessesUnknown, g.Health, g.HealthReason = "", "", ""
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(path+"/"+k, x)
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprint(path, "/", i), x)
			}
		case nil:
		case string:
			if v != "" {
				paths[path] = true
			}
		default:
			paths[path] = true
		}
	}
	walk("", tree)
	return paths
}

// listed are how many processes each GPU has.
func listed(r Reading) map[int]int {
	n := map[int]int{}
	for _, p := range r.Processes {
		n[p.GPU]++
	}
	return n
}

// checkLess holds a reading of less against that of all: what is taken away makes
// nothing known that was not, no GPU well that is lost, and no list of processes
// that lacks one count as whole.
func checkLess(t *testing.T, what string, all, less Reading) {
	t.Helper()
	if less.Complete && !all.Complete {
		t.Errorf("without %s the list of GPUs is complete", what)
	}
	if len(less.GPUs) > len(all.GPUs) {
		t.Errorf("without %s there are %d GPUs of %d", what, len(less.GPUs), len(all.GPUs))
	}
	before, after := listed(all), listed(less)
	for i, g := range less.GPUs[:min(len(less.GPUs), len(all.GPUs))] {
		was := known(t, all.GPUs[i])
		for path := range known(t, g) {
			if !was[path] {
				t.Errorf("without %s GPU %d has %s", what, i, path)
			}
		}
		if all.GPUs[i].Health == snapshot.HealthLost && g.Health != snapshot.HealthLost {
			t.Errorf("without %s GPU %d is %s and no longer lost", what, i, g.Health)
		}
		if sliced(less, i) != sliced(all, i) && g.ProcessesUnknown == "" {
			t.Errorf("without %s no problem says that a process of GPU %d has no slice", what, i)
		}
		if (after[i] != before[i] || all.GPUs[i].ProcessesUnknown != "") && g.ProcessesUnknown == "" {
			t.Errorf("without %s the processes of GPU %d count as known, and are %d of %d", what, i, after[i],
				before[i])
		}
	}
}

// TestEachFieldTakenAway: a capture with one of its leaves missing says nothing
// more than the whole one.
func TestEachFieldTakenAway(t *testing.T) {
	const most = 400 // fields of one capture
	files, err := filepath.Glob("testdata/*[0-9].xml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	real, err := filepath.Glob("../../../shared/fixtures/xml/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	leaf := regexp.MustCompile(`<(\w+)(?: [^<>]*)?>[^<]*</\w+>`)
	processes := regexp.MustCompile(`(?s)<processes>.*?</processes>`)
	for _, file := range append(files, real...) {
		if strings.Contains(file, "forged") {
			continue // what is a leaf there is another question
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := regexp.MustCompile(`@PID\d@`).ReplaceAllString(string(raw), "4001")
			text = regexp.MustCompile(
				`(?s)<supported_clocks>.*?</supported_clocks>|<accounted_processes>.*?</accounted_processes>`).ReplaceAllString(text, "")
			all := Parse([]byte(text), nil)
			places := leaf.FindAllStringSubmatchIndex(text, -1)
			for i := 0; i < len(places); i += 1 + len(places)/most {
				at := places[i]
				name := text[at[2]:at[3]]
				less := Parse([]byte(text[:at[0]]+text[at[1]:]), nil)
				checkLess(t, fmt.Sprintf("%s at byte %d", name, at[0]), all, less)
				if name == "pid" && strings.Join(unknowns(less), "") == strings.Join(unknowns(all), "") {
					t.Errorf("without the pid at byte %d all processes count as known", at[0])
				}
				if (name == "attached_gpus" || name == "uuid") && less.Complete {
					t.Errorf("without %s at byte %d the list of GPUs is complete", name, at[0])
				}
			}
			for _, at := range processes.FindAllStringIndex(text, -1) {
				less := Parse([]byte(text[:at[0]]+text[at[1]:]), nil)
				checkLess(t, fmt.Sprintf("the processes at byte %d", at[0]), all, less)
				if len(less.GPUs) == 0 || strings.Count(strings.Join(unknowns(less), " "), "not listed") == 0 &&
					all.GPUs[0].Health == snapshot.HealthOK && len(all.GPUs) == 1 {
					t.Errorf("without the processes at byte %d: %v", at[0], unknowns(less))
				}
			}
		})
	}
}

// sliced is how many processes of a GPU run in a slice that is known.
func sliced(r Reading, gpu int) (n int) {
	for _, p := range r.Processes {
		if p.GPU == gpu && p.GPUInstanceID != nil {
			n++
		}
	}
	return n
}

// unknowns are why the processes of each GPU are not known.
func unknowns(r Reading) []string {
	var list []string
	for _, g := range r.GPUs {
		list = append(list, g.ProcessesUnknown+";")
	}
	return list
}
