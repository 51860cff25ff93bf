package text

import (
	"path"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// textHosts are the texts of all hosts by path.
func textHosts(in render.Input) map[string]string {
	files, err := boardtest.Files(in, Files)
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for _, f := range files {
		if dir, name := path.Split(f.Path); strings.HasPrefix(dir, "hosts/") && strings.HasPrefix(name, "status.") {
			all[f.Path] = string(f.Content)
		}
	}
	return all
}

func TestTextOfAHost(t *testing.T) {
	in := boardtest.Lab()
	all := textHosts(in)
	if len(all) != len(in.Board.Hosts) {
		t.Fatalf("%d texts of %d hosts", len(all), len(in.Board.Hosts))
	}
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		plain := all["hosts/"+h.Name+"/status.txt"]
		if !strings.HasPrefix(plain, h.Name+": ") {
			t.Errorf("%s begins with %.40q, want the host", h.Name, plain)
		}
		if got := strings.Count(plain, "[ gpu:"); got != len(h.GPUs) {
			t.Errorf("%s has %d boxes for %d GPUs", h.Name, got, len(h.GPUs))
		}
		for _, line := range strings.Split(plain, "\n") {
			if render.TextWidth(line) > 80 || strings.ContainsFunc(line, boardtest.Obeyed) {
				t.Errorf("%s: line %q", h.Name, line)
			}
		}
		for j := range in.Board.Hosts {
			if other := in.Board.Hosts[j].Name; j != i && strings.Contains(plain, other) {
				t.Errorf("the text of %s speaks of %s", h.Name, other)
			}
		}
	}
}

// A generation without news of a host leaves its texts as they are: with a
// thousand hosts every rewritten byte counts.
func TestTextOfAHostIsStableBetweenSnapshots(t *testing.T) {
	in := boardtest.Lab()
	idle := 0
	before := textHosts(in)
	for i := range in.Board.Hosts {
		for j := range in.Board.Hosts[i].GPUs {
			if !in.Board.Hosts[i].GPUs[j].IdleSince.IsZero() {
				idle++
			}
		}
	}
	if idle == 0 {
		t.Fatal("no GPU of the fleet is idle: this proves nothing")
	}
	in.Board.GeneratedAt = in.Board.GeneratedAt.Add(3 * time.Hour)
	for path, text := range textHosts(in) {
		if before[path] != text {
			t.Errorf("%s changed without news of its host:\n%s\nbefore:\n%s", path, text, before[path])
		}
	}
}

func TestTextOfAHostThatNeverCame(t *testing.T) {
	in := render.Input{Board: &board.Board{
		GeneratedAt: boardtest.Now, Hosts: []board.Host{{Name: "nova", State: board.Never}},
	}}
	text := textHosts(in)["hosts/nova/status.txt"]
	if !strings.HasPrefix(text, "nova: 0 of 0 GPUs free, never heard of\n") || strings.Contains(text, "0001") {
		t.Errorf("%s", text)
	}
}

// Whatever a node or a person writes, no file holds anything that a terminal obeys
// but our colours.
func TestHostileTextReachesNoFile(t *testing.T) {
	in := boardtest.Hostile(boardtest.Lab(), boardtest.Evil)
	files, err := boardtest.Files(in, Files)
	if err != nil || len(files) < len(in.Board.Hosts) {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		boardtest.CheckText(t, string(f.Content), 80, path.Ext(f.Path) == ".ansi", f.Path == "status.txt")
	}
}
