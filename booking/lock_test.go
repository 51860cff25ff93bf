package booking

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"
)

// shelf is a LockDir in memory, whose clock is told and on which somebody else
// may act before each request.
type shelf struct {
	files  map[string]string
	ages   map[string]time.Duration
	before func(s *shelf, request, name string)
	moves  int // of the lock
}

func (s *shelf) act(request, name string) {
	if s.before != nil {
		s.before(s, request, name)
	}
}

func (s *shelf) Create(name string, content []byte) error {
	s.act("create", name)
	if _, taken := s.files[name]; taken {
		return fs.ErrExist
	}
	s.files[name], s.ages[name] = string(content), 0
	return nil
}

func (s *shelf) ReadFile(name string) ([]byte, error) {
	s.act("read", name)
	content, ok := s.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(content), nil
}

func (s *shelf) Age(name string) (time.Duration, error) {
	s.act("age", name)
	if _, ok := s.files[name]; !ok {
		return 0, fs.ErrNotExist
	}
	return s.ages[name], nil
}

func (s *shelf) Rename(from, to string) error {
	s.act("rename", from)
	content, ok := s.files[from]
	if !ok {
		return fs.ErrNotExist
	}
	if from == "lock" {
		s.moves++
	}
	s.files[to], s.ages[to] = content, s.ages[from]
	delete(s.files, from)
	return nil
}

func (s *shelf) PutBack(from, to string) error {
	s.act("put back", from)
	if _, taken := s.files[to]; taken {
		return errors.New("failure")
	}
	return s.Rename(from, to)
}

func (s *shelf) Remove(name string) error {
	s.act("remove", name)
	if _, ok := s.files[name]; !ok {
		return fs.ErrNotExist
	}
	delete(s.files, name)
	return nil
}

// A lock that was made anew while one was about to break the old one is not
// taken away, however late that happens.
func TestFreshLockIsNotBroken(t *testing.T) {
	for _, tc := range []struct{ request, name string }{{"create", "lock.break"}, {"rename", "lock"}} {
		t.Run(tc.request, func(t *testing.T) {
			s := &shelf{files: map[string]string{"lock": "old\nthe dead\n"}, ages: map[string]time.Duration{"lock": LockTimeout + time.Second}}
			done := false
			s.before = func(s *shelf, request, name string) {
				if request == tc.request && name == tc.name && !done {
					done = true
					s.files["lock"], s.ages["lock"] = "new\nthe living\n", 0
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, _, err := AcquireLock(ctx, s, "lock", "me", func(ctx context.Context) error { cancel(); return ctx.Err() })
			if !errors.Is(err, ErrLocked) || !done {
				t.Errorf("got %v, want that it is locked", err)
			}
			if len(s.files) != 1 || s.files["lock"] != "new\nthe living\n" {
				t.Errorf("files %q, want the new lock alone", s.files)
			}
			if tc.request == "create" && s.moves != 0 {
				t.Error("the new lock was away for a moment, in which its holder had none")
			}
		})
	}
}

// Whoever died with the right to break a lock does not keep it for ever.
func TestDeadBreakerIsSucceeded(t *testing.T) {
	old := LockTimeout + time.Second
	s := &shelf{files: map[string]string{"lock": "old\nx\n", "lock.break": "gone\n"}, ages: map[string]time.Duration{"lock": old, "lock.break": LockTimeout}}
	waits := 0
	held, unlock, err := AcquireLock(context.Background(), s, "lock", "me", func(context.Context) error {
		if waits++; waits == 3 {
			s.ages["lock.break"] = old
		}
		if waits > 10 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !held() || len(s.files) != 1 || waits < 3 {
		t.Errorf("held %v, files %q, after %d waits", held(), s.files, waits)
	}
	if err := unlock(); err != nil || len(s.files) != 0 {
		t.Errorf("unlocking: %v, files %q", err, s.files)
	}
}
