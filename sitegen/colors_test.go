package sitegen_test

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen"
)

// rememberedColors are those of people that the next generation begins with.
func (l *lab) rememberedColors() map[string]int {
	l.t.Helper()
	data, err := os.ReadFile(l.path("state/memory.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	var memory struct{ Colors map[string]int }
	if err := json.Unmarshal(data, &memory); err != nil {
		l.t.Fatal(err)
	}
	return memory.Colors
}

// People keep their colors from one generation to the next, and one at another moment gives none for good.
func TestColorsAreRemembered(t *testing.T) {
	l := newLab(t)
	pretend := func(o *sitegen.Options) { o.Pretend = true }
	if r := l.generate(start, pretend); len(r.Board.Colors) == 0 || len(l.rememberedColors()) > 0 {
		t.Fatalf("another moment shows %v and leaves %v", r.Board.Colors, l.rememberedColors())
	}
	first := l.generate(start).Board.Colors
	if !maps.Equal(l.rememberedColors(), first) {
		t.Errorf("the next generation begins with %v, want %v", l.rememberedColors(), first)
	}

	// Whoever held the first color is gone, and somebody is new.
	someone := ""
	for name, color := range first {
		if color == 1 {
			someone = name
		}
	}
	l.write("data/aliases.csv", "zed,"+someone+"\n")
	l.push(start.Add(time.Minute), l.hosts...)
	r := l.generate(start.Add(time.Minute))
	for name, color := range first {
		if r.Board.Colors[name] != color {
			t.Errorf("%s had color %d and has %d", name, color, r.Board.Colors[name])
		}
	}
	if len(first) < board.PersonColors && r.Board.Colors["zed"] == 0 {
		t.Errorf("zed has no color: %v", r.Board.Colors)
	}
	if !maps.Equal(l.rememberedColors(), r.Board.Colors) {
		t.Errorf("remembered are %v, want %v", l.rememberedColors(), r.Board.Colors)
	}
}
