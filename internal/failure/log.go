package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/snapshot"
)

// A Log is the log of a loop. It is safe for use by several goroutines.
type Log struct {
	w   io.Writer
	now func() time.Time

	mu      sync.Mutex
	failing map[string]bool
}

// NewLog makes a log that writes to w.
func NewLog(w io.Writer, now func() time.Time) *Log {
	return &Log{w: w, now: now, failing: map[string]bool{}}
}

// Report writes a line when what begins to fail, and another when it works again; nothing in
// between, because nobody reads a log that repeats itself every 20 seconds. code is for an error
// without a code. An interrupt is not written.
func (l *Log) Report(what, code string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.failing[what]; {
	case err == nil && was:
		l.line(what + ": well again")
	case err != nil && !errors.Is(err, context.Canceled) && !was:
		l.line(what + ": " + Line(snapshot.Text(err.Error(), 2000), cmp.Or(CodeOf(err), code)))
		if hint := Explain(err).Hint; hint != "" {
			fmt.Fprintf(l.w, "gpuboard: hint: %s\n", Printable(hint))
		}
	}
	l.failing[what] = err != nil
}

// Say writes a line with the time.
func (l *Log) Say(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(Printable(message))
}

func (l *Log) line(s string) {
	fmt.Fprintf(l.w, "gpuboard: %s %s\n", l.now().UTC().Format(time.RFC3339), s)
}

// Problem writes a line about a problem.
func (l *Log) Problem(p snapshot.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	WriteProblem(l.w, p)
}

// WriteProblem writes a line about a problem.
func WriteProblem(w io.Writer, p snapshot.Problem) {
	where := p.Where()
	if where != "" {
		where += ": "
	}
	fmt.Fprintf(w, "gpuboard: %s\n", Line(where+p.Message, Printable(p.Code)))
}

// Line is a message with its code behind it, safe to print.
func Line(message, code string) string {
	if code == "" {
		return Printable(message)
	}
	return Printable(message) + " [" + code + "]"
}

// Printable keeps line breaks, and nothing else that a terminal obeys.
func Printable(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = snapshot.Text(strings.ReplaceAll(line, "\t", "    "), 4096)
	}
	return strings.Join(lines, "\n")
}
