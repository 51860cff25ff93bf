// Package ps parses the output of procps' ps, and names the program of a process from
// its arguments. It is pure; package collector runs ps and reads /proc.
//
// [Program] alone reads arguments. ps is not asked for them.
package ps

import (
	"bytes"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

const (
	// MaxOutputBytes limits the output that is parsed.
	MaxOutputBytes = 16 << 20
	userWidth      = 64
	// maxElapsed is longer than any uptime, in seconds. procps prints 4123168608 for some
	// processes that have just started.
	maxElapsed = 1 << 31
)

// Args returns the arguments of ps for [Parse]. The user is the last column, so that it
// may contain blanks. Its width is the longest name that ps supports, so that ps does not
// cut names to "name+".
func Args() []string { return args("-A") }

// ArgsOf returns the arguments for these processes only. It uses procps' quick mode (-q),
// which exists since 3.3.10 (2014) and does not read other processes. Pids that do not
// exist are not listed.
func ArgsOf(pids []int) []string {
	list := make([]string, len(pids))
	for i, pid := range pids {
		list[i] = strconv.Itoa(pid)
	}
	return args("-q", strings.Join(list, ","))
}

func args(which ...string) []string {
	return append(which, "--cols", "512", "-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "uid=", "-o", "etimes=",
		"-o", "stat=", "-o", "user:"+strconv.Itoa(userWidth)+"=")
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
}

// Zombie reports whether the process has ended and its parent has not reaped it.
func (p Process) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

// Parse parses the output of ps with [Args]. Malformed lines are left out and counted in
// one problem.
func Parse(out []byte) ([]Process, []snapshot.Problem) {
	var problems []snapshot.Problem
	if len(out) > MaxOutputBytes {
		out = out[:bytes.LastIndexByte(out[:MaxOutputBytes], '\n')+1]
		problems = append(problems,
			snapshot.NewProblem("ps:limit", "ps wrote more than %d MiB; the rest is not read", MaxOutputBytes>>20))
	}
	list := make([]Process, 0, bytes.Count(out, []byte{'\n'})+1)
	odd := 0
	for line := range bytes.Lines(out) {
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
		problems = append(problems, snapshot.NewProblem("ps:parse", "%d lines of ps cannot be read (is it procps?)", odd))
	}
	return list, problems
}

func parseLine(line []byte) (Process, bool) {
	var p Process
	fields := bytes.Fields(line)
	if len(fields) < 7 {
		return p, false
	}
	var numbers [5]int64
	for i := range numbers {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil || n < -1<<31 || n >= 1<<40 {
			return p, false
		}
		numbers[i] = n
	}
	state, user := fields[5], bytes.Join(fields[6:], []byte{' '})
	if numbers[0] < 1 || !strings.ContainsRune("DIRSTtWXxZKPN", rune(state[0])) {
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
	p.State, p.User = state[0], userName(user, p.UID)
	return p, p.UID >= 0
}

// userName returns the name, or the uid if ps cut the name ("name+"): a cut name could
// stand for two users.
func userName(user []byte, uid int64) string {
	if len(user) >= userWidth-8 && user[len(user)-1] == '+' {
		return strconv.FormatInt(uid, 10)
	}
	return snapshot.Text(string(user), snapshot.MaxNameBytes)
}
