package booking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A modelStore is comments.json in a modelDir. The next one to lock it is there
// when the lock of the dead has been broken.
type modelStore struct{ *Keeper }

func (s modelStore) Lock(ctx context.Context) (func() error, error) {
	return func() error { return nil }, s.Recover(ctx)
}

// An editor is a person who had the file open when the program began, and saves
// it at some step with an entry of their own.
type editor struct {
	kind  string
	token string
	read  []byte     // what they had read
	open  *modelFile // what they had opened
}

// What an editor may do. A fresh one saves what stands there with their entry, a
// stale one what they had read. Emptying and filling are two halves of one save.
var editorKinds = []string{"rename fresh", "rename stale", "in place fresh", "in place stale", "late", "delete"}

// slow is somebody who opens the file at one step, and writes into what they
// have open at another one.
const slow = "slow"

// A scene is one run of the program among editors, with what they destroyed by
// their own doing.
type scene struct {
	dir   *modelDir
	gone  map[string]bool // entries that a person saved over, or deleted
	saved map[string]bool // entries that people saved
}

var tokenPattern = regexp.MustCompile(`"name": *"([a-z0-9]+)"`)

func tokens(data []byte) map[string]bool {
	have := map[string]bool{}
	for _, m := range tokenPattern.FindAllSubmatch(data, -1) {
		have[string(m[1])] = true
	}
	return have
}

func with(data []byte, token string) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{\n}\n")
	}
	i := bytes.Index(data, []byte("{\n")) + 2
	return fmt.Appendf(nil, "%s  \"h-%s\": [{\"name\": \"%s\"}],\n%s", data[:i], token, token, data[i:])
}

// over notes what the person who saves next destroys.
func (s *scene) over(old *modelFile, next []byte) {
	if old == nil {
		return
	}
	has := tokens(next)
	for t := range tokens(old.data) {
		if !has[t] {
			s.gone[t] = true
		}
	}
}

func (s *scene) act(e *editor) {
	stands := s.dir.files["c"]
	base := e.read
	if strings.HasSuffix(e.kind, "fresh") && stands != nil {
		base = stands.data
	}
	next := with(base, e.token)
	s.saved[e.token] = true
	delete(s.gone, e.token)
	switch e.kind {
	case "rename fresh", "rename stale":
		s.over(stands, next)
		s.over(s.away(), next)
		s.unlink(stands)
		s.dir.files["c"] = &modelFile{data: next, theirs: true}
	case "in place fresh", "in place stale":
		s.over(s.away(), next)
		if stands == nil {
			stands = &modelFile{theirs: true}
			s.dir.files["c"] = stands
		}
		s.over(stands, next)
		stands.data = next
	case slow:
		if e.read != nil {
			e.open, e.read = stands, nil
			delete(s.saved, e.token)
			return
		}
		if e.open == nil {
			delete(s.saved, e.token)
			return
		}
		next = with(e.open.data, e.token)
		fallthrough
	case "late":
		s.over(e.open, next)
		e.open.data = next
		s.gone[e.token] = e.open.gone
	case "delete":
		delete(s.saved, e.token)
		s.over(stands, nil)
		s.unlink(stands)
	}
}

// unlink is a person's doing.
func (s *scene) unlink(f *modelFile) {
	delete(s.dir.files, "c")
	if f != nil {
		f.gone = true
	}
}

// away is what the program has taken away just now: whoever saves at this moment
// would have saved over it.
func (s *scene) away() *modelFile {
	if s.dir.files["c"] != nil {
		return nil
	}
	return s.dir.away
}

const modelBefore = "// ours\n{\n  \"h-old\": [{\"name\": \"old\"}],\n}\n"

func newScene(swaps, moves, locked bool) *scene {
	return &scene{
		dir:  &modelDir{files: map[string]*modelFile{"c": {data: []byte(modelBefore), theirs: true}}, swaps: swaps, moves: moves, locked: locked},
		gone: map[string]bool{}, saved: map[string]bool{"old": true},
	}
}

func (s *scene) editor(kind, token string) *editor {
	return &editor{kind: kind, token: token, read: []byte(modelBefore), open: s.dir.files["c"]}
}

func (s *scene) keeper() *Keeper {
	k := NewKeeper(s.dir, "c")
	k.pause = 0
	return k
}

type killed struct{}

// book is one program that books, until it is done or the hook kills it.
func (s *scene) book(name string, hook func(step int)) (died bool, err error) {
	s.dir.step, s.dir.hook = 0, hook
	defer func() {
		s.dir.hook = nil
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
			died = true
		}
	}()
	return false, s.bookWith(s.keeper(), name)
}

// check holds what lies there against what has to.
func (s *scene) check(acknowledged ...string) (problems []string) {
	if s.dir.files["c"] == nil {
		s.dir.files["c"] = &modelFile{}
	}
	stands := tokens(s.dir.files["c"].data)
	if n := len(tokenPattern.FindAll(s.dir.files["c"].data, -1)); n != len(stands) {
		problems = append(problems, "an entry is there twice")
	}
	seen := map[string]bool{}
	for name, f := range s.dir.files {
		for t := range tokens(f.data) {
			seen[t] = seen[t] || name == "c" || strings.HasPrefix(name, "c"+savedMark) || s.shown(name)
		}
		if name != "c" && !strings.HasPrefix(name, ".c"+previousMark) && !strings.HasPrefix(name, "c"+savedMark) {
			problems = append(problems, "left behind: "+name)
		}
	}
	for t := range s.saved {
		if !seen[t] && !s.gone[t] {
			problems = append(problems, t+" is lost")
		}
	}
	for _, t := range acknowledged {
		if !stands[t] && !s.gone[t] {
			problems = append(problems, "the booking of "+t+" was acknowledged and is lost")
		}
	}
	return problems
}

// shown tells of what was replaced rightly, and written into since: the board
// says so, see [Saved].
func (s *scene) shown(name string) bool {
	is, ok := previousOf("c", name)
	return ok && is != fingerprint(s.dir.files[name].data)
}

func (s *scene) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.dir.files)) {
		fmt.Fprintf(&b, "%s:\n%s\n", name, s.dir.files[name].data)
	}
	return b.String()
}

// modelServers are the ways in which directories differ.
var modelServers = []struct {
	name                 string
	swaps, moves, locked bool
}{{name: "links"}, {name: "links to own files", locked: true}, {name: "plain rename", moves: true}, {name: "exchange", swaps: true}}

// modelSteps is more than a booking among two editors was seen to take, and
// modelReach how far apart two saves may be to meet in one settling.
const (
	modelSteps = 60
	modelReach = 7
)

// Two people save at any two steps of a booking, each in any way: what they
// wrote stands, or is merged, or lies where everybody sees it.
func TestNoSaveIsLostAtAnyStep(t *testing.T) {
	for _, server := range modelServers {
		t.Run(server.name, func(t *testing.T) {
			runs, keeps := 0, 0
			for _, one := range append(editorKinds, slow) {
				for _, two := range append([]string{""}, editorKinds...) {
					if one == slow {
						two = slow
					}
					for first, reached := 1, true; reached && first < modelSteps; first++ {
						reached = false
						for second, again := first, true; again && second <= first+modelReach; second++ {
							again = false
							s := newScene(server.swaps, server.moves, server.locked)
							a, b := s.editor(one, "ann"), s.editor(two, "bob")
							_, err := s.book("us", func(step int) {
								if step == first {
									reached = true
									s.act(a)
								}
								if step == second && two != "" {
									again = true
									if two == slow {
										b = a
									}
									s.act(b)
								}
							})
							runs++
							var acknowledged []string
							var kept *KeptError
							switch {
							case err == nil:
								acknowledged = append(acknowledged, "us")
							case errors.As(err, &kept):
								keeps++
							case !errors.Is(err, ErrChanged):
								t.Fatalf("%s at %d, %s at %d: %v\n%s", one, first, two, second, err, s)
							}
							problems := s.check(acknowledged...)
							if two == "" && s.gone["old"] && tokens(s.dir.files["c"].data)["old"] {
								problems = append(problems, "what was deleted is back")
							}
							if len(problems) > 0 {
								t.Fatalf("%s at %d, %s at %d (%v): %v\n%s", one, first, two, second, err, problems, s)
							}
							if _, err := s.book("next", nil); err != nil {
								t.Fatalf("%s at %d, %s at %d: the next one: %v\n%s", one, first, two, second, err, s)
							}
							if problems := s.check("next"); len(problems) > 0 {
								t.Fatalf("%s at %d, %s at %d (%v), then the next: %v\n%s", one, first, two, second, err, problems, s)
							}
							if two == "" {
								break
							}
						}
					}
				}
			}
			t.Logf("%d runs; in %d of them two saves could not both stand", runs, keeps)
		})
	}
}

// The program is killed at any step, and somebody saves at any step before, or
// while it is dead; the next program puts in order what it finds.
func TestKilledAtAnyStep(t *testing.T) {
	for _, server := range modelServers {
		t.Run(server.name, func(t *testing.T) {
			runs := 0
			for _, kind := range append([]string{""}, editorKinds...) {
				for kill, reached := 1, true; reached && kill < modelSteps; kill++ {
					reached = false
					for at := 1; at <= kill+1; at++ {
						s := newScene(server.swaps, server.moves, server.locked)
						e := s.editor(kind, "ann")
						died, _ := s.book("us", func(step int) {
							if step == at && kind != "" {
								s.act(e)
							}
							if step == kill {
								panic(killed{})
							}
						})
						if !died {
							break
						}
						reached = true
						if at == kill+1 && kind != "" {
							s.act(e)
						}
						if data, _, _ := s.keeper().Read(context.Background()); len(data) == 0 && kind != "delete" {
							t.Fatalf("killed at %d, %s at %d: readers find nothing\n%s", kill, kind, at, s)
						}
						if _, err := s.book("next", nil); err != nil {
							t.Fatalf("killed at %d, %s at %d: the next one: %v\n%s", kill, kind, at, err, s)
						}
						runs++
						if problems := s.check("next"); len(problems) > 0 {
							t.Fatalf("killed at %d, %s at %d: %v\n%s", kill, kind, at, problems, s)
						}
						if kind == "" {
							break
						}
					}
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}

// The program dies while nothing has the name, and a person who finds no file
// begins anew: what had been there is kept where people see it.
func TestBegunAnewWhereAProgramDied(t *testing.T) {
	for _, server := range modelServers {
		kills := 0
		for kill := 1; kill < modelSteps; kill++ {
			s := newScene(server.swaps, server.moves, server.locked)
			died, _ := s.book("us", func(step int) {
				if step == kill {
					panic(killed{})
				}
			})
			if !died {
				break
			}
			if s.dir.files["c"] != nil {
				continue
			}
			kills++
			s.dir.files["c"] = &modelFile{data: with(nil, "ann"), theirs: true}
			s.saved["ann"] = true
			if _, err := s.book("next", nil); err != nil {
				t.Fatal(err)
			}
			if problems := s.check("next"); len(problems) > 0 {
				t.Errorf("%s: %v\n%s", server.name, problems, s)
			}
		}
		if kills == 0 && !server.swaps {
			t.Errorf("%s: it never died while nothing had the name", server.name)
		}
	}
}

// Whoever puts in order what another left is killed, too, at any step.
func TestKilledWhileRecovering(t *testing.T) {
	for _, server := range modelServers {
		t.Run(server.name, func(t *testing.T) {
			runs := 0
			for _, kind := range []string{"rename stale", "in place stale", "late"} {
				for kill := 1; kill < modelSteps; kill++ {
					for at := max(1, kill-4); at <= kill; at++ {
						for kill2, reached := 1, true; reached; kill2++ {
							s := newScene(server.swaps, server.moves, server.locked)
							e := s.editor(kind, "ann")
							died, _ := s.book("us", func(step int) {
								if step == at {
									s.act(e)
								}
								if step == kill {
									panic(killed{})
								}
							})
							if !died {
								kill = modelSteps
								break
							}
							reached, _ = s.book("between", func(step int) {
								if step == kill2 {
									panic(killed{})
								}
							})
							if _, err := s.book("next", nil); err != nil {
								t.Fatalf("killed at %d and %d, %s at %d: the next one: %v\n%s", kill, kill2, kind, at, err, s)
							}
							runs++
							acknowledged := []string{"next"}
							if !reached {
								acknowledged = append(acknowledged, "between")
							}
							if problems := s.check(acknowledged...); len(problems) > 0 {
								t.Fatalf("killed at %d and %d, %s at %d: %v\n%s", kill, kill2, kind, at, problems, s)
							}
						}
					}
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}
