package collector

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

const (
	maxAccountsBytes = 4 << 20
	// keepAccounts is how long what was read and asked of accounts is kept.
	keepAccounts = 5 * time.Minute
	// askBudget is the time that directory services and disks have for all answers, until accounts are read again.
	askBudget = 5 * time.Second
)

// An account is one that a person logs in to.
type account struct{ name, uid, home string }

// The fields of a line of passwd by which an account is looked up.
const (
	byName = 0
	byUID  = 2
)

// accounts are the ordinary accounts of this node: those of /etc/passwd, and of a directory service the ones that
// are asked for.
type accounts struct {
	known  map[accountKey]*account // nil for one that is no person's
	homes  map[string]*account     // nil for the home of several
	owners map[string]string       // uids of folders
	ranges []subuids
	// service is true if a directory service has the ranges of uids. They are asked for by the name of a person.
	service bool
	// ask runs a program that may hang, and returns what it has written; "" if it failed, or was ended.
	ask func(program string, args ...string) string
}

type accountKey struct {
	field int
	text  string
}

// subuids is a line of /etc/subuid: owner, a name or a uid, may make user namespaces with these uids.
type subuids struct {
	owner        string
	start, count int64
}

// readAccounts reads /etc/passwd and /etc/subuid.
func readAccounts(etc string, ask func(program string, args ...string) string) *accounts {
	a := &accounts{
		known: map[accountKey]*account{}, homes: map[string]*account{}, owners: map[string]string{}, ask: ask,
	}
	for _, fields := range fieldsOf(etc, "passwd") {
		if len(fields) < 7 {
			continue
		}
		name, uid := accountKey{byName, fields[byName]}, accountKey{byUID, fields[byUID]}
		_, named := a.known[name]
		_, numbered := a.known[uid]
		if named || numbered { // as for the system itself, the first line counts
			continue
		}
		one := ordinary(fields)
		a.known[name], a.known[uid] = one, one
		if one != nil {
			_, shared := a.homes[one.home]
			a.homes[one.home] = one
			if shared {
				a.homes[one.home] = nil
			}
		}
	}

	for _, fields := range fieldsOf(etc, "nsswitch.conf") {
		a.service = a.service || len(fields) == 2 && fields[0] == "subid" && strings.TrimSpace(fields[1]) != "files"
	}
	if !a.service {
		for _, fields := range fieldsOf(etc, "subuid") {
			a.addRange(fields)
		}
	}
	return a
}

// fieldsOf returns the fields of each line of a file.
func fieldsOf(etc, file string) (lines [][]string) {
	text, _ := atomicfile.Read(filepath.Join(etc, file), maxAccountsBytes)
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.Split(strings.TrimSpace(line), ":"))
	}
	return lines
}

// ordinary returns the account of a line of passwd; nil unless a person logs in to it.
func ordinary(fields []string) *account {
	uid, err := strconv.ParseInt(fields[byUID], 10, 64)
	p := snapshot.Process{User: fields[byName], UID: &uid}
	if err != nil || p.Login() == "" {
		return nil
	}
	return &account{name: fields[byName], uid: fields[byUID], home: filepath.Clean(fields[5])}
}

// find returns the account with a name or a uid; nil if it is no person's. Who is not in /etc/passwd is asked for.
func (a *accounts) find(field int, text string) *account {
	key := accountKey{field, text}
	found, known := a.known[key]
	if !known && text != "" {
		line, _, _ := strings.Cut(a.ask("getent", "passwd", "--", text), "\n")
		if fields := strings.Split(line, ":"); len(fields) >= 7 && fields[field] == text {
			found = ordinary(fields)
		}
		a.known[key] = found
	}
	return found
}

// addRange adds a line of /etc/subuid.
func (a *accounts) addRange(fields []string) {
	if len(fields) != 3 {
		return
	}
	start, err1 := strconv.ParseInt(fields[1], 10, 64)
	count, err2 := strconv.ParseInt(fields[2], 10, 64)
	if err1 == nil && err2 == nil && start > 0 && count > 0 && start < 1<<32 && count < 1<<32 {
		a.ranges = append(a.ranges, subuids{fields[0], start, count})
	}
}

// askRange asks the directory service, if it has them, for the ranges of the person with a uid.
func (a *accounts) askRange(uid string) {
	if !a.service {
		return
	}
	who := a.find(byUID, uid)
	if who == nil || slices.ContainsFunc(a.ranges, func(r subuids) bool { return r.owner == who.name }) {
		return
	}
	a.ranges = append(a.ranges, subuids{owner: who.name}) // once
	for line := range strings.Lines(a.ask("getsubids", who.name)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == who.name { // 0: mira 100000 65536
			a.addRange(fields[1:])
		}
	}
}

// ofSubUID returns the person whose range has a uid; nil if that is nobody's, or not one person's alone.
func (a *accounts) ofSubUID(uid int64) *account {
	var found *account
	for _, r := range a.ranges {
		if uid < r.start || uid-r.start >= r.count {
			continue
		}
		owner := cmp.Or(a.find(byName, r.owner), a.find(byUID, r.owner))
		if owner == nil || found != nil && found.uid != owner.uid {
			return nil
		}
		found = owner
	}
	return found
}

// atHome returns the person in whose home a path is; nil if it is in nobody's, or in that of several.
func (a *accounts) atHome(path string) *account {
	// A home like / or /home has the files of others.
	isHome := func(dir string) bool { return strings.Count(dir, "/") >= 2 }
	for dir := path; isHome(dir); dir = filepath.Dir(dir) {
		if owner, known := a.homes[dir]; known {
			return owner
		}
	}
	// Those of a directory service cannot be listed, and most homes are called after their accounts.
	for dir := path; isHome(dir) && !within(path, "/var"); dir = filepath.Dir(dir) {
		if strings.Count(dir, "/") > 4 {
			continue
		}
		if owner := a.find(byName, filepath.Base(dir)); owner != nil && owner.home == dir {
			return owner
		}
	}
	return nil
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// ofFolder returns the owner of a folder. One in somebody's home is theirs, and is not looked at.
func (a *accounts) ofFolder(path string) *account {
	if !filepath.IsAbs(path) {
		return nil
	}
	path = filepath.Clean(path)
	if who := a.atHome(path); who != nil {
		return who
	}
	uid, known := a.owners[path]
	if !known {
		uid = strings.TrimSpace(a.ask("stat", "--dereference", "--format=%u", "--", path))
		a.owners[path] = uid
	}
	return a.find(byUID, uid)
}

// An asker runs programs that may hang.
type asker struct {
	left time.Duration
	hung int  // the pid of one that could not be ended
	none bool // there is nobody to ask
}

func (a *asker) ask(program string, args ...string) string {
	path, err := resolve(program)
	if err != nil || a.none || a.left <= 0 || a.hung != 0 && exists(a.hung) {
		return ""
	}
	began := time.Now()
	r := execute(context.Background(), path, args, environment("LC_ALL=C"), a.left, 16<<10)
	a.left -= time.Since(began)
	a.hung = r.hung
	if r.err != nil || r.exit != 0 || r.timedOut || r.cut {
		return ""
	}
	return string(r.stdout)
}
