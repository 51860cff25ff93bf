package collector

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

const (
	maxAccountsBytes = 4 << 20
	// What a directory service answers is kept for so long, and it is asked only so often in one reading.
	keepAnswer  = 10 * time.Minute
	maxQuestion = 8
	askBudget   = 2 * time.Second
)

// An account is one that a person logs in to.
type account struct {
	name string
	uid  int64
	home string // "" if nothing follows from it
}

// accounts are the ordinary accounts of this node: those of /etc/passwd, and of a directory service the ones that
// are asked for. It is made anew for each reading.
type accounts struct {
	byName map[string]account
	byUID  map[int64]account
	ranges []subuids
	ask    func(key string) *account // nil if there is none
}

// subuids is a line of /etc/subuid: owner may make user namespaces with these uids.
type subuids struct {
	owner        string // a name, or a uid
	start, count int64
}

// readAccounts reads /etc/passwd and /etc/subuid.
func readAccounts(etc string, ask func(key string) *account) *accounts {
	a := &accounts{byName: map[string]account{}, byUID: map[int64]account{}, ask: ask}
	each := func(file string, line func(fields []string)) {
		text, _ := atomicfile.Read(filepath.Join(etc, file), maxAccountsBytes)
		for l := range strings.Lines(string(text)) {
			line(strings.Split(strings.TrimSpace(l), ":"))
		}
	}
	names, uids := map[string]bool{}, map[string]bool{}
	each("passwd", func(fields []string) {
		// As for the system itself, the first line of a name or a uid counts.
		if len(fields) < 7 || names[fields[0]] || uids[fields[2]] {
			return
		}
		names[fields[0]], uids[fields[2]] = true, true
		if found := ordinary(fields); found != nil {
			a.byName[found.name], a.byUID[found.uid] = *found, *found
		}
	})
	each("subuid", func(fields []string) {
		if len(fields) != 3 {
			return
		}
		start, err1 := strconv.ParseInt(fields[1], 10, 64)
		count, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 == nil && err2 == nil && start > 0 && count > 0 && start < 1<<32 && count < 1<<32 {
			a.ranges = append(a.ranges, subuids{fields[0], start, count})
		}
	})
	return a
}

// ordinary returns the account of a line of passwd; nil unless a person logs in to it.
func ordinary(fields []string) *account {
	if len(fields) < 7 {
		return nil
	}
	uid, err := strconv.ParseInt(fields[2], 10, 64)
	p := snapshot.Process{User: fields[0], UID: &uid}
	if err != nil || p.Login() == "" {
		return nil
	}
	found := account{name: fields[0], uid: uid}
	// A home like / or /home has the files of others.
	if home := filepath.Clean(fields[5]); filepath.IsAbs(home) && strings.Count(home, "/") >= 2 {
		found.home = home
	}
	return &found
}

// withUID returns the account with a uid; nil if it is no person's.
func (a *accounts) withUID(uid int64) *account {
	if found, ok := a.byUID[uid]; ok {
		return &found
	}
	if uid <= 0 || uid >= 1<<32-1 || a.ask == nil {
		return nil
	}
	if found := a.ask(strconv.FormatInt(uid, 10)); found != nil && found.uid == uid {
		return found
	}
	return nil
}

// named returns the account of a name; nil if it is no person's.
func (a *accounts) named(name string) *account {
	if found, ok := a.byName[name]; ok {
		return &found
	}
	if !snapshot.Fits("login", name) || snapshot.SystemAccount(name) || a.ask == nil {
		return nil
	}
	if found := a.ask(name); found != nil && found.name == name {
		return found
	}
	return nil
}

// ofSubUID returns the person to whom /etc/subuid gives a uid; nil if that is nobody, or not one person alone.
func (a *accounts) ofSubUID(uid int64) *account {
	var found *account
	for _, r := range a.ranges {
		if uid < r.start || uid-r.start >= r.count {
			continue
		}
		owner := a.named(r.owner)
		if n, err := strconv.ParseInt(r.owner, 10, 64); err == nil {
			owner = a.withUID(n)
		}
		if owner == nil || found != nil && found.uid != owner.uid {
			return nil
		}
		found = owner
	}
	return found
}

// atHome returns the person in whose home a path is; nil if it is in nobody's.
func (a *accounts) atHome(path string) *account {
	var found *account
	shared := false
	for _, one := range a.byName {
		switch {
		case one.home == "" || !within(path, one.home):
		case found == nil || len(one.home) > len(found.home):
			found, shared = &one, false
		case one.home == found.home:
			shared = true
		}
	}
	if shared {
		return nil
	}
	if found != nil || a.ask == nil || within(path, "/var") {
		return found
	}
	// Those of a directory service cannot be listed, and most homes are called after their accounts.
	for dir := path; strings.Count(dir, "/") >= 2; dir = filepath.Dir(dir) {
		if strings.Count(dir, "/") > 4 {
			continue
		}
		if one := a.named(filepath.Base(dir)); one != nil && one.home == dir {
			return one
		}
	}
	return nil
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// A directory asks getent for accounts that are not in /etc/passwd, and remembers the answers.
type directory struct {
	answers map[string]answer
	silent  time.Time // it is not asked until then, because it has not answered
}

type answer struct {
	account *account
	at      time.Time
}

// asker returns the function that asks in one reading.
func (d *directory) asker(ctx context.Context, now time.Time) func(key string) *account {
	program, err := resolve("getent")
	if err != nil {
		return nil
	}
	left := maxQuestion
	return func(key string) *account {
		if known, ok := d.answers[key]; ok && now.Sub(known.at) < keepAnswer {
			return known.account
		}
		if left == 0 || now.Before(d.silent) {
			return nil
		}
		left--
		r := execute(ctx, program, []string{"passwd", "--", key}, environment("LC_ALL=C"), askBudget, 4<<10)
		if r.err != nil || r.timedOut {
			d.silent = now.Add(keepAnswer)
			return nil
		}
		line, _, _ := strings.Cut(string(r.stdout), "\n")
		found := answer{ordinary(strings.Split(line, ":")), now}
		if d.answers == nil || len(d.answers) > maxLookups {
			d.answers = map[string]answer{}
		}
		d.answers[key] = found
		return found.account
	}
}
