package sitegen_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen"
)

// TestPublicSiteNamesNobody: whoever is named on the one site is on no file of the other.
func TestPublicSiteNamesNobody(t *testing.T) {
	l := newLab(t)
	hide := func(o *sitegen.Options) {
		o.Public, o.PublicPrivacy = l.path("public"), board.Privacy{Users: board.UsersHash,
			Programs: board.ProgramsHidden}
	}
	l.generate(start.Add(-time.Hour), hide)
	l.push(start, l.hosts...)
	b := l.generate(start, hide).Board
	var names []string
	for _, u := range b.Users {
		names = append(names, u.Name)
	}
	for _, k := range b.Bookings {
		names = append(names, k.Name, k.Comment)
	}
	names = append(names, "train.py", "jupyter")
	if len(names) < 12 {
		t.Fatalf("only %q to look for", names)
	}
	// What stands for a person or a booking may happen to begin like a name: "user-ada567e1".
	masks := regexp.MustCompile(`(user|booking)-[0-9a-f]+`)
	files, found := 0, map[string]bool{}
	for dir, masked := range map[string]bool{l.path("site"): false, l.path("public"): true} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "/assets/") || strings.HasSuffix(path, ".gz") ||
				strings.HasSuffix(path, "/schema") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			text := masks.ReplaceAllString(string(data)+" "+path, "masked")
			for _, name := range names {
				if name == "" || !containsWord(text, name) {
					continue
				}
				found[name] = true
				if masked && !strings.Contains(path, "/about/") { // where commands are explained by example
					t.Errorf("%s names %q", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 || len(found) < 10 {
		t.Errorf("looked at %d files and found only %v on the full site: the test proves nothing", files, found)
	}
}

// containsWord finds a name that is not part of a longer word.
func containsWord(s, word string) bool {
	for rest := s; ; {
		i := strings.Index(rest, word)
		if i < 0 {
			return false
		}
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = rest[i-1]
		}
		if end := i + len(word); end < len(rest) {
			after = rest[end]
		}
		if !isLetter(before) && !isLetter(after) {
			return true
		}
		rest = rest[i+len(word):]
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }

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
	l.write("data/aliases.csv", someone+",zed\n")
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
