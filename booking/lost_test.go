package booking

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
)

// A lostDir loses one request with its connection: it was not heard, or only the
// answer was lost, or it is heard late, when others have gone on. What makes an
// exchange is heard together, as publisher.Session sends it.
type lostDir struct {
	*modelDir
	at   int    // which request is lost
	fate string // "unheard", "heard" or "late"
	n    int
	do   func() // what is heard late
}

var errLost = fmt.Errorf("%w: connection lost", ErrUnsure)

func (d *lostDir) lose(do func()) (lost bool) {
	if d.n++; d.n != d.at {
		return false
	}
	switch d.fate {
	case "heard":
		do()
	case "late":
		d.do = do
	}
	return true
}

func (d *lostDir) Names(ctx context.Context) ([]string, error) {
	if d.lose(func() {}) {
		return nil, errLost
	}
	return d.modelDir.Names(ctx)
}

func (d *lostDir) Read(ctx context.Context, name string) ([]byte, fs.FileInfo, error) {
	if d.lose(func() {}) {
		return nil, nil, errLost
	}
	return d.modelDir.Read(ctx, name)
}

func (d *lostDir) Stage(ctx context.Context, name string, data []byte, like fs.FileInfo) error {
	if d.lose(func() { _ = d.modelDir.Stage(ctx, name, data, like) }) {
		return errLost
	}
	return d.modelDir.Stage(ctx, name, data, like)
}

func (d *lostDir) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	if d.lose(func() { _, _ = d.modelDir.Exchange(ctx, name, taken, staged) }) {
		return errLost, errLost
	}
	return d.modelDir.Exchange(ctx, name, taken, staged)
}

func (d *lostDir) Link(ctx context.Context, from, to string) error {
	if d.lose(func() { _ = d.modelDir.Link(ctx, from, to) }) {
		return errLost
	}
	return d.modelDir.Link(ctx, from, to)
}

func (d *lostDir) Put(ctx context.Context, from, to string) error {
	if d.lose(func() { _ = d.modelDir.Put(ctx, from, to) }) {
		return errLost
	}
	return d.modelDir.Put(ctx, from, to)
}

func (d *lostDir) Rename(ctx context.Context, from, to string) error {
	if d.lose(func() { _ = d.modelDir.Rename(ctx, from, to) }) {
		return errLost
	}
	return d.modelDir.Rename(ctx, from, to)
}

func (d *lostDir) Remove(ctx context.Context, name string) error {
	if d.lose(func() { _ = d.modelDir.Remove(ctx, name) }) {
		return errLost
	}
	return d.modelDir.Remove(ctx, name)
}

// A connection breaks at any request, which was heard or not, or is heard when
// the next program is at any of its own; somebody saves before, at any step.
func TestRequestLostAtAnyStep(t *testing.T) {
	for _, server := range modelServers {
		if server.swaps {
			continue // nothing is lost on this machine
		}
		t.Run(server.name, func(t *testing.T) {
			runs, sure := 0, 0
			for _, fate := range []string{"unheard", "heard", "late"} {
				for _, kind := range []string{"", "rename stale", "rename fresh", "in place stale"} {
					for at, lost := 1, true; lost && at < modelSteps; at++ {
						lost = false
						for when := max(1, at-2); when <= at+1; when++ {
							for later, again := 1, true; again; later++ {
								again = false
								s := newScene(server.swaps, server.moves, server.locked)
								e := s.editor(kind, "ann")
								d := &lostDir{modelDir: s.dir, at: at, fate: fate}
								s.dir.hook = func(step int) {
									if step == when && kind != "" {
										s.act(e)
									}
								}
								k := s.keeper()
								k.dir = d
								err := s.bookWith(k, "us")
								lost = lost || d.n >= at
								if err == nil && d.n >= at {
									sure++
								}
								acknowledged := []string{"next", "last"}
								if err == nil {
									acknowledged = append(acknowledged, "us")
								}
								s.dir.hook, s.dir.step = nil, 0
								if d.do != nil {
									s.dir.hook = func(step int) {
										if do := d.do; step == later {
											again, d.do, s.dir.hook = true, nil, nil
											do()
										}
									}
								}
								// Who comes next has broken the lock, if it stayed.
								if next := s.bookWith(s.keeper(), "next"); next != nil {
									t.Fatalf("%s at %d, %s at %d, later %d: the next one: %v\n%s", fate, at, kind, when, later, next, s)
								}
								s.dir.hook = nil
								if last := s.bookWith(s.keeper(), "last"); last != nil {
									t.Fatalf("%s at %d, %s at %d, later %d: the last one: %v\n%s", fate, at, kind, when, later, last, s)
								}
								runs++
								if problems := s.check(acknowledged...); len(problems) > 0 {
									t.Fatalf("%s at %d, %s at %d, later %d (%v): %v\n%s", fate, at, kind, when, later, err, problems, s)
								}
							}
							if kind == "" {
								break
							}
						}
					}
				}
			}
			if t.Logf("%d runs; %d changes were known to be made though an answer was lost", runs, sure); sure == 0 {
				t.Error("no change was found to be made after its answer was lost")
			}
		})
	}
}

func (s *scene) bookWith(k *Keeper, name string) error {
	return Update(context.Background(), modelStore{k}, func(data []byte) ([]byte, error) { return with(data, name), nil })
}
