package booking

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Files beside comments.json, while it changes: what is going to stand there,
// and what stood there. The second one's name says what it ought to hold and
// what was put in its place, as [fingerprint] has it: so whoever finds it can
// tell a content that was replaced rightly from one that somebody saved at the
// last moment.
//
//	.comments.json.new-TOKEN
//	.comments.json.taken-TOKEN.BASE.OURS
//
// A .new- file never is the only one to hold what a person wrote. What is done
// with stays until the next change is made, as
//
//	.comments.json.previous-TOKEN.BASE
//
// so that somebody who has it open may still write into it, and be heard.
const (
	stagedMark   = ".new-"
	takenMark    = ".taken-"
	previousMark = ".previous-"
	savedMark    = ".saved-" // of a file that people are to see: comments.json.saved-…
)

// nobodys stands for OURS where what was put in place is a person's content.
const nobodys = "0"

// A turn is one exchange of the file.
type turn struct {
	taken string // the file that what stood there was moved to
	base  string // what it ought to hold
	ours  string // what was put in its place
	gave  string // what was put back out of it, as it was then
}

func newTurn(name, base, ours string) turn {
	return turn{taken: "." + name + takenMark + rand.Text() + "." + base + "." + ours, base: base, ours: ours}
}

func stagedName(name string) string { return "." + name + stagedMark + rand.Text() }

// turnOf reads the name of a file that was taken.
func turnOf(name, file string) (turn, bool) {
	rest, ok := strings.CutPrefix(file, "."+name+takenMark)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 {
		return turn{}, false
	}
	return turn{taken: file, base: parts[1], ours: parts[2]}, true
}

// previousOf reads the name of a file that is done with: what it ought to hold.
func previousOf(name, file string) (base string, ok bool) {
	rest, ok := strings.CutPrefix(file, "."+name+previousMark)
	_, base, whole := strings.Cut(rest, ".")
	return base, ok && whole
}

// fingerprint is a version that is short enough for the name of a file.
func fingerprint(data []byte) string { return Version(data)[:16] }

// takenBeside lists what was taken and lies there still.
func takenBeside(ctx context.Context, dir Dir, name string) ([]turn, error) {
	names, err := dir.Names(ctx)
	if err != nil {
		return nil, err
	}
	var turns []turn
	for _, file := range slices.Sorted(slices.Values(names)) {
		if t, ok := turnOf(name, file); ok {
			turns = append(turns, t)
		}
	}
	return turns, nil
}

// Recover puts in order what programs left that died while they changed the
// file: what they took away goes back to its name when nothing stands there, and
// what somebody saved at that moment does. The caller holds the lock. An account
// that may not list the directory leaves it to those who may.
func (k *Keeper) Recover(ctx context.Context) error {
	names, err := k.dir.Names(ctx)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	var turns []turn
	var previous []string
	for _, file := range slices.Sorted(slices.Values(names)) {
		if strings.HasPrefix(file, "."+k.name+stagedMark) {
			if err := k.dir.Remove(ctx, file); err != nil {
				return err
			}
		}
		if base, ok := previousOf(k.name, file); ok {
			data, _, err := k.dir.Read(ctx, file)
			switch {
			case err == nil && fingerprint(data) == base:
				previous = append(previous, file)
			case err == nil:
				turns = append(turns, turn{taken: file, base: base, ours: nobodys})
			case !unreadable(err) && !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
		if file == "."+k.name+".previous" { // as versions before 1.0 had it
			previous = append(previous, file)
		}
		if t, ok := turnOf(k.name, file); ok {
			turns = append(turns, t)
		}
	}
	s := k.settling(turns)
	s.previous, s.recovering = previous, true
	if len(turns) > 0 {
		err = s.run(ctx)
	}
	k.mu.Lock()
	k.previous = s.previous
	k.mu.Unlock()
	return err
}

// standing reads the file, whether or not somebody is changing it: in the moment
// in which nothing has its name, and ever after a program that died in it, what
// was taken away counts, and from is where that lies. A file that is not there
// has no data.
func (k *Keeper) standing(ctx context.Context) (data []byte, info fs.FileInfo, from string, err error) {
	dir, name := k.dir, k.name
	for try := 0; ; try++ {
		data, info, err = readOrNil(ctx, dir, name)
		if err != nil || data != nil {
			return data, info, "", err
		}
		turns, err := takenBeside(ctx, dir, name)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, nil, "", err
		}
		if len(turns) == 0 {
			// It may have come back between the two looks.
			data, info, err = readOrNil(ctx, dir, name)
			return data, info, "", err
		}
		if try < standingTries {
			if err := sleep(ctx, k.pause); err != nil {
				return nil, nil, "", err
			}
			continue
		}
		hands, bases, err := k.settling(turns).look(ctx)
		if err != nil {
			return nil, nil, "", err
		}
		if best := append(hands, bases...); len(best) > 0 && best[0].data != nil {
			return best[0].data, best[0].info, best[0].taken, nil
		}
		return nil, nil, "", nil
	}
}

const (
	standingTries = 10
	standingPause = 10 * time.Millisecond
)

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
