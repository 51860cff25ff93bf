// Package ps parses the output of procps' ps. It is pure; package collector runs the
// program.
//
// [Program] and [Title] read arguments, and no field of a [Process] contains one.
package ps

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpuboard/internal/snapshot"
)

const (
	// MaxOutputBytes limits the output that is parsed.
	MaxOutputBytes = 16 << 20
	// columns limits the length of a line, so that the arguments of one process cannot
	// fill the output.
	columns   = 4096
	userWidth = 64
	// maxElapsed is longer than any uptime, in seconds. procps prints 4123168608 for some
	// processes that have just started.
	maxElapsed = 1 << 31
)

// Args returns the arguments of ps for [Parse]. The user is between two columns of known
// format, so that it may contain blanks. Its width is the longest name that ps supports,
// so that ps does not cut names to "name+".
func Args() []string { return args("-A") }

// ArgsOf returns the arguments for these processes only. It uses procps' quick mode (-q),
// which exists since 3.3.10 (2014) and does not read other processes. Pids that do not
// exist are not listed.
func ArgsOf(pids []int) []string {
	var list strings.Builder
	for i, pid := range pids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strconv.Itoa(pid))
	}
	return args("-q", list.String())
}

func args(which ...string) []string {
	return append(which, "--cols", strconv.Itoa(columns),
		"-o", "pid:10=", "-o", "ppid:10=", "-o", "pgid:10=", "-o", "uid:11=", "-o", "etimes:12=",
		"-o", "user:"+strconv.Itoa(userWidth)+"=", "-o", "stat:8=", "-o", "args=")
}

// Env returns the environment of ps for [Parse]: UTC, and a UTF-8 LC_CTYPE, because in
// the C locale bytes of user names beyond ASCII become "?". It has no COLUMNS, which would
// cut lines, and no full locale, for which ps would read a dozen more files.
func Env() []string { return []string{"TZ=UTC", "LC_CTYPE=C.UTF-8"} }

// A Process is one line of ps.
type Process struct {
	PID, PPID, PGID int
	UID             int64
	// Elapsed is the running time in whole seconds; -1 if ps prints an impossible one.
	Elapsed int64
	// State is the first letter of its state: R, S, D, T, Z, …
	State byte
	// User is the login name, or the uid in digits if there is none.
	User string
	// Program is the result of [Title].
	Program string
}

// Zombie reports whether the process has ended and its parent has not reaped it.
func (p Process) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

// Parse parses the output of ps with [Args]. Malformed lines are left out and counted in
// one problem.
func Parse(out []byte) ([]Process, []snapshot.Problem) {
	var problems []snapshot.Problem
	if len(out) > MaxOutputBytes {
		out = out[:bytes.LastIndexByte(out[:MaxOutputBytes], '\n')+1]
		problems = append(problems, snapshot.Problem{Code: "ps:limit",
			Message: fmt.Sprintf("ps wrote more than %d MiB; the rest is not looked at", MaxOutputBytes>>20)})
	}
	list := make([]Process, 0, bytes.Count(out, []byte{'\n'})+1)
	odd := 0
	for len(out) > 0 {
		line, rest, _ := bytes.Cut(out, []byte{'\n'})
		out = rest
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if p, ok := parseLine(line); ok {
			list = append(list, p)
		} else {
			odd++
		}
	}
	if odd > 0 {
		problems = append(problems, snapshot.Problem{Code: "ps:parse",
			Message: fmt.Sprintf("%d lines of ps are not understood (is it procps?)", odd)})
	}
	return list, problems
}

func parseLine(line []byte) (Process, bool) {
	var p Process
	var numbers [5]int64
	rest := line
	for i := range numbers {
		n, after, ok := leadingNumber(rest)
		if !ok {
			return p, false
		}
		numbers[i], rest = n, after
	}
	if len(rest) == 0 || rest[0] != ' ' || numbers[0] < 1 {
		return p, false
	}
	p.PID, p.PPID, p.PGID = int(numbers[0]), int(numbers[1]), int(numbers[2])
	p.UID, p.Elapsed = numbers[3], max(numbers[4], 0)
	if p.Elapsed >= maxElapsed {
		p.Elapsed = -1
	}
	if p.UID < 0 { // ps prints the uid as a signed number of 32 bits
		p.UID += 1 << 32
	}
	user, state, args, ok := split(rest[1:])
	if !ok || p.UID < 0 {
		return p, false
	}
	p.State = state
	p.User = userName(user, p.UID)
	p.Program = Title(string(args), len(line) >= columns)
	return p, true
}

func leadingNumber(b []byte) (n int64, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " ")
	end := 0
	for end < len(b) && b[end] != ' ' {
		end++
	}
	n, err := strconv.ParseInt(string(b[:end]), 10, 64)
	return n, b[end:], err == nil && n >= -1<<31 && n < 1<<40
}

// split splits "user <padding> stat args". procps 4.0 pads the user by bytes, and other
// versions may pad by characters or by columns of a terminal, so the first of these that
// a state follows is used. If none fits, the user is the first word.
func split(b []byte) (user []byte, state byte, args []byte, ok bool) {
	for _, ends := range [...]func([]byte) int{byBytes, byRunes, byColumns} {
		if end := ends(b); end >= 0 && end < len(b) && b[end] == ' ' {
			if n := stateLen(b[end+1:]); n > 0 {
				return bytes.TrimRight(b[:end], " "), b[end+1], arguments(b[end+1:], n), true
			}
		}
	}
	word, after, _ := bytes.Cut(b, []byte{' '})
	after = bytes.TrimLeft(after, " ")
	if n := stateLen(after); n > 0 && len(word) > 0 {
		return word, after[0], arguments(after, n), true
	}
	return nil, 0, nil, false
}

// arguments returns what follows the state. The state is padded to 8 columns; further
// blanks belong to the arguments.
func arguments(b []byte, n int) []byte {
	if n < 8 && len(b) >= 8 && len(bytes.TrimSpace(b[n:8])) == 0 {
		n = 8
	}
	if n < len(b) {
		n++
	}
	return b[min(n, len(b)):]
}

// stateLen returns the length of the process state at the start of b; 0 for none.
func stateLen(b []byte) int {
	if len(b) == 0 || bytes.IndexByte([]byte("DIRSTtWXxZKPN"), b[0]) < 0 {
		return 0
	}
	n := 1
	for n < len(b) && bytes.IndexByte([]byte("<NLsl+W"), b[n]) >= 0 {
		n++
	}
	if n < len(b) && b[n] != ' ' {
		return 0
	}
	return n
}

func byBytes([]byte) int { return userWidth }

func byRunes(b []byte) int { return runesEnd(b, userWidth, func(rune) int { return 1 }) }

func byColumns(b []byte) int { return runesEnd(b, userWidth, width) }

// runesEnd returns the offset of a column; -1 if the line is shorter or not UTF-8.
func runesEnd(b []byte, columns int, of func(rune) int) int {
	used, at := 0, 0
	for used < columns {
		r, n := utf8.DecodeRune(b[at:])
		if n == 0 || r == utf8.RuneError && n == 1 {
			return -1
		}
		used += of(r)
		at += n
	}
	return at
}

// width returns 2 for East Asian wide characters, else 1.
func width(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0x20000 && r <= 0x3fffd) {
		return 2
	}
	return 1
}

// userName returns the name, or the uid if ps cut the name ("name+"): a cut name could
// stand for two users.
func userName(user []byte, uid int64) string {
	if len(user) == 0 || len(user) >= userWidth-8 && user[len(user)-1] == '+' {
		return strconv.FormatInt(uid, 10)
	}
	return snapshot.Text(string(user), snapshot.MaxNameBytes)
}
