// Package doctor says what is in force on a machine, from where, and whether it works.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// The states of a Finding. Only what is not well counts for the exit code.
const (
	Well = "ok"
	Bad  = "bad"
	Note = "note" // not set up, or not to be seen from here
)

// A Finding is one thing that doctor looked at. Codes are stable; where a room
// has a code of its own for a fault, it is that one.
type Finding struct {
	State   string `json:"state"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Mend    string `json:"mend,omitempty"` // what to type
}

// A Setting is one setting, and where it comes from.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// A Report is what doctor prints with --json.
type Report struct {
	SchemaVersion int       `json:"schema_version"`
	Version       string    `json:"version"`
	Sides         []string  `json:"sides"`
	Config        string    `json:"config"`
	InForce       []Setting `json:"in_force"`
	Findings      []Finding `json:"findings"`
	Well          bool      `json:"well"`
}

// The sides of the program that a machine can have.
const (
	Node = "node"
	Web  = "web"
)

// Options are what doctor looks at.
type Options struct {
	Config     *config.Config
	ConfigFlag string    // the file that --config named; "" for none
	Node       node.Node // makes the parts of a node, and has the clock and the environment
	Installed  func(program string) bool
}

// An examination looks at everything once and goes on after each finding.
type examination struct {
	Options
	proc     string // /proc
	euid     int
	findings []Finding
	mounts   map[string]bool // by path; nil until somebody asks
}

// Examine looks at the named sides of this machine, or at those that it seems to
// have. It changes nothing but a temporary file that it makes and removes where the
// program would write.
func Examine(ctx context.Context, o Options, sides ...string) (Report, error) {
	if len(sides) == 0 {
		sides = sidesOf(o.Config)
	}
	d := &examination{Options: o, proc: "/proc", euid: os.Geteuid()}
	d.configFile()
	for _, side := range sides {
		switch side {
		case Node:
			d.node(ctx)
		case Web:
			d.web(ctx)
		default:
			return Report{}, failure.Usage("gpuboard doctor node, or gpuboard doctor web", "there is no side %q", side)
		}
	}
	return d.report(sides), ctx.Err()
}

// sidesOf guesses what this machine is: a node pushes, a web host has a data directory.
func sidesOf(cfg *config.Config) (sides []string) {
	if cfg.String("to") != "" {
		sides = append(sides, Node)
	}
	if info, err := os.Stat(cfg.String("data")); err == nil && info.IsDir() || cfg.Given("data") {
		sides = append(sides, Web)
	}
	if len(sides) == 0 {
		sides = []string{Node}
	}
	return sides
}

func (d *examination) report(sides []string) Report {
	r := Report{SchemaVersion: 1, Version: d.Node.Version, Sides: sides, Config: d.Config.Path, Findings: d.findings}
	r.Well = !slices.ContainsFunc(d.findings, func(f Finding) bool { return f.State == Bad })
	for _, k := range config.Keys() {
		used := slices.Contains(sides, Node) && slices.Contains(config.NodeKeys(), k.Name) || slices.Contains(sides, Web) && slices.Contains(config.WebKeys(), k.Name)
		// A setting of the other side is of interest when somebody has set it here.
		if used || d.Config.Given(k.Name) {
			r.InForce = append(r.InForce, Setting{k.Name, shown(d.Config.String(k.Name)), d.Config.Origin(k.Name)})
		}
	}
	return r
}

// shown is a value without the password that a URL may hold.
func shown(value string) string {
	if u, err := url.Parse(value); err == nil && u.User != nil {
		return u.Redacted()
	}
	return value
}

// Write prints a report for people.
func (r Report) Write(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "gpuboard %s, looking at this machine as %s\n\nIn force:\n", r.Version, strings.Join(r.Sides, " and "))
	wide, widest := 0, 0
	for _, v := range r.InForce {
		wide, widest = max(wide, len(v.Key)), max(widest, min(len(v.Value), 40))
	}
	for _, v := range r.InForce {
		fmt.Fprintf(&b, "  %-*s  %-*s  %s\n", wide, v.Key, widest, cmp.Or(v.Value, "-"), v.Origin)
	}
	b.WriteString("\nFound:\n")
	bad := 0
	for _, f := range r.Findings {
		state := f.State
		if state == Bad {
			state = "BAD"
			bad++
		}
		fmt.Fprintf(&b, "  %-4s  %s [%s]\n", state, f.Message, f.Code)
		if f.Mend != "" {
			what := "fix"
			if f.State == Note {
				what = "to change it"
			}
			fmt.Fprintf(&b, "        %s: %s\n", what, f.Mend)
		}
	}
	if bad == 0 {
		b.WriteString("\nAll is well.\n")
	} else {
		fmt.Fprintf(&b, "\n%d of %d findings are problems.\n", bad, len(r.Findings))
	}
	_, err := fmt.Fprintln(to, failure.Printable(b.String()))
	return err
}

func (d *examination) add(state, code, mend, format string, args ...any) {
	d.findings = append(d.findings, Finding{State: state, Code: code, Message: snapshot.Text(fmt.Sprintf(format, args...), 1000), Mend: mend})
}

func (d *examination) ok(code, format string, args ...any) { d.add(Well, code, "", format, args...) }
func (d *examination) note(code, mend, format string, args ...any) {
	d.add(Note, code, mend, format, args...)
}
func (d *examination) bad(code, mend, format string, args ...any) {
	d.add(Bad, code, mend, format, args...)
}

// own is a command of this program with the configuration that doctor was given.
func (d *examination) own(command string) string {
	if d.ConfigFlag != "" {
		command += " --config " + shell.Quote(d.ConfigFlag)
	}
	return "gpuboard " + command
}

// configFile looks at the file that was read, which load has found sound.
func (d *examination) configFile() {
	path := d.Config.Path
	if path == "" {
		d.note("config:none", "gpuboard init node DIR, or gpuboard init web DIR", "no configuration file: defaults, variables and flags are in force")
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.bad("config:unreadable", "ls -l "+shell.Quote(path), "the configuration cannot be read: %v", err)
	case info.Mode().Perm()&0o002 != 0:
		d.bad("config:mode", "chmod o-w "+shell.Quote(path), "everybody can write %s, and so change what this program does", path)
	default:
		d.ok("config:ok", "%s is valid", path)
	}
}

// clockBy compares this clock with the Date of a web server's answer.
func (d *examination) clockBy(date string, sent, received time.Time) {
	theirs, err := time.Parse(time.RFC1123, date)
	if err != nil {
		d.note("clock:unknown", "", "the web server's answer has no date, so the clock cannot be compared")
		return
	}
	off := max(sent.Sub(theirs.Add(time.Second)), theirs.Sub(received))
	if tolerance := d.Config.Duration("clock_tolerance"); off > tolerance {
		d.bad("clock:off", "timedatectl set-ntp true", "this clock and the web server's differ by %v; the limit is %v", off.Round(time.Second), tolerance)
		return
	}
	d.ok("clock:ok", "this clock agrees with the web server's")
}

// probe makes and removes a file where the program would write.
func (d *examination) probe(code, what, dir string) bool {
	f, err := os.CreateTemp(dir, ".tmp-doctor-")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.bad(code+":unwritable", fmt.Sprintf("chown %d %s", d.euid, shell.Quote(dir)), "%s cannot be written by uid %d: %v", what, d.euid, err)
	}
	return err == nil
}

// room says when a disk is about to be full.
func (d *examination) room(what, dir string) {
	const leastBytes, leastFiles = 256 << 20, 1000
	disk, err := fileSystemOf(dir)
	switch {
	case err != nil:
		d.note("disk:unknown", "", "%s: %v", what, err)
	case disk.free < leastBytes:
		d.bad("disk:space", "df -h "+shell.Quote(dir), "%s has %d MiB left on its disk", what, disk.free>>20)
	case disk.inodesFree < leastFiles:
		d.bad("disk:inodes", "df -i "+shell.Quote(dir), "%s has %d inodes left on its disk", what, disk.inodesFree)
	default:
		d.ok("disk:ok", "%s has %d MiB and enough inodes left", what, disk.free>>20)
	}
}
