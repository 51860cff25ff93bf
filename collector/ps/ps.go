// Package ps is the table of processes, read from one run of procps' ps. It is
// pure; package collector runs the program.
//
// Arguments are looked at in [Program] and [Title] and go no further: no field
// of a [Process] holds one.
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
	// MaxOutputBytes is the most of ps's output that is looked at.
	MaxOutputBytes = 16 << 20
	// columns bounds a line, so that nobody fills the output with the
	// arguments of one process.
	columns   = 4096
	userWidth = 64
	// maxElapsed is more than any node has been up, in seconds. procps says
	// 4123168608 of some processes that have just begun.
	maxElapsed = 1 << 31
)

// Args are the arguments that make ps write what [Parse] reads. The user
// stands between two columns of known shape, so that it may hold blanks; its
// width is the most that ps knows names to have, so that none is cut to "name+".
func Args() []string { return args("-A") }

// ArgsOf are the arguments for these processes alone, which costs nothing for
// all the others: -q is procps' quick mode, of 3.3.10 (2014) and later. It says
// nothing of pids that are nobody's.
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

// Env is the environment in which ps writes what [Parse] reads: in UTC and
// with user names whole (in the C locale, each byte beyond ASCII becomes "?"),
// and without COLUMNS, which would cut lines. The rest of a locale would be a
// dozen files that ps reads for nothing at each start.
func Env() []string { return []string{"TZ=UTC", "LC_CTYPE=C.UTF-8"} }

// A Process is one line of ps.
type Process struct {
	PID, PPID, PGID int
	UID             int64
	// Elapsed is for how many whole seconds it has been running; -1 when ps
	// says what cannot be.
	Elapsed int64
	// State is the first letter of its state: R, S, D, T, Z, …
	State byte
	// User is the login name, or the uid in digits where there is none.
	User string
	// Program is what [Title] makes of its arguments.
	Program string
}

// Zombie reports a process that has ended, and whose parent does not know yet.
func (p Process) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

// Parse reads the output of ps with [Args]. A line that is not understood is
// left out, and the number of such lines is said in one problem.
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

// split cuts "user <pad> stat args". procps 4.0 pads the user by bytes; other
// versions may count characters or columns on a screen, so the place is taken
// at which a state follows. Failing all, the first word is the user.
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

// arguments is what follows the state, which is padded to 8 columns: blanks
// beyond those belong to the arguments.
func arguments(b []byte, n int) []byte {
	if n < 8 && len(b) >= 8 && len(bytes.TrimSpace(b[n:8])) == 0 {
		n = 8
	}
	if n < len(b) {
		n++
	}
	return b[min(n, len(b)):]
}

// stateLen is the length of a process state at the start of b; 0 if there is none.
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

// runesEnd is the offset at which so many columns are used up; -1 when the
// line is shorter, or not UTF-8.
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

// width is 2 for the blocks of East Asian characters.
func width(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0x20000 && r <= 0x3fffd) {
		return 2
	}
	return 1
}

// userName is the name whole, or the uid: a name that ps cut ("name+") would
// make one person of two.
func userName(user []byte, uid int64) string {
	if len(user) == 0 || len(user) >= userWidth-8 && user[len(user)-1] == '+' {
		return strconv.FormatInt(uid, 10)
	}
	return snapshot.Text(string(user), snapshot.MaxNameBytes)
}
