// Package doctor says what is in force on a machine, from where, and whether it works.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuboard/collector/containers"
	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/node"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// The states of a Finding. Only Bad counts for the exit code.
const (
	OK   = "ok"
	Bad  = "bad"
	Note = "note" // not set up, or not to be seen from here
)

// A Finding is one thing that doctor looked at. Codes are stable; a fault that another package
// reports keeps that package's code.
type Finding struct {
	State   string `json:"state"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"` // what to type
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
	OK            bool      `json:"ok"`
}

// The sides of the program that a machine can have.
const (
	Node = "node"
	Web  = "web"
)

// Options are what doctor looks at.
type Options struct {
	Config    *config.Config
	Node      node.Node // makes the parts of a node, and has the clock and the environment
	Installed func(program string) bool
	// Crontab returns this user's crontab, nil if there is none.
	Crontab func(context.Context) []byte
}

// An examination looks at everything once and goes on after each finding.
type examination struct {
	Options
	proc     string // /proc
	dev      string // /dev
	opens    func(device string) bool
	etc      string // /etc
	answers  string // of docker, podman and nerdctl
	euid     int
	side     string // that is looked at
	findings []Finding
	jobs     []job
	mounts   map[string]bool // by path; nil until somebody asks
}

// Examine looks at the named sides of this machine, or at those that it seems to
// have. It changes nothing but a temporary file that it makes and removes where the
// program would write.
func Examine(ctx context.Context, o Options, sides ...string) (Report, error) {
	if len(sides) == 0 {
		sides = sidesOf(o.Config)
	}
	const readWrite = 6
	opens := func(device string) bool { return syscall.Access(device, readWrite) == nil }
	d := &examination{Options: o, proc: "/proc", dev: "/dev", opens: opens, etc: "/etc", answers: containers.Path,
		euid: os.Geteuid()}
	d.configFile()
	d.jobs = d.configuredJobs(ctx)
	for _, side := range sides {
		switch d.side = side; side {
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
	r.OK = !slices.ContainsFunc(d.findings, func(f Finding) bool { return f.State == Bad })
	for _, k := range config.Keys() {
		used := slices.Contains(sides, Node) && slices.Contains(config.NodeKeys(), k.Name) ||
			slices.Contains(sides, Web) && slices.Contains(config.WebKeys(), k.Name)
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
	fmt.Fprintf(&b, "gpuboard %s, looking at this machine as %s\n\nIn force:\n", r.Version,
		strings.Join(r.Sides, " and "))
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
		if f.Fix != "" {
			what := "fix"
			if f.State == Note {
				what = "to change it"
			}
			fmt.Fprintf(&b, "        %s: %s\n", what, f.Fix)
		}
	}
	if bad == 0 {
		b.WriteString("\nNo problems found.\n")
	} else {
		fmt.Fprintf(&b, "\n%d of %d findings are problems.\n", bad, len(r.Findings))
	}
	_, err := fmt.Fprintln(to, failure.Printable(b.String()))
	return err
}

func (d *examination) add(state, code, fix, format string, args ...any) {
	message := snapshot.Text(fmt.Sprintf(format, args...), 1000)
	d.findings = append(d.findings, Finding{State: state, Code: code, Message: message, Fix: fix})
}

func (d *examination) ok(code, format string, args ...any) { d.add(OK, code, "", format, args...) }
func (d *examination) note(code, fix, format string, args ...any) {
	d.add(Note, code, fix, format, args...)
}
func (d *examination) bad(code, fix, format string, args ...any) {
	d.add(Bad, code, fix, format, args...)
}

// own is a command of this program with the configuration that doctor was given, and with its flags for these settings.
func (d *examination) own(command string, names ...string) string {
	if d.Config.Named {
		command += " --config " + shell.Quote(d.Config.Path)
	}
	keys := config.Keys()
	for _, name := range names {
		if strings.HasPrefix(d.Config.Origin(name), "--") {
			command += " --" + config.Among(keys, name).Flag() + "=" + shell.Quote(d.Config.String(name))
		}
	}
	return "gpuboard " + command
}

// generate is the command that makes a generation with the settings that doctor looks at.
func (d *examination) generate(flags string) string {
	return d.own("generate"+flags, config.WebKeys()...)
}

// setting is where a setting belongs: in the file, or else in the line by which cron or systemd runs one of these
// commands, or else behind the command that is typed.
func (d *examination) setting(name, value, typed string, commands ...string) string {
	j, ok := d.job(commands...)
	switch {
	case d.Config.Path != "" && strings.HasSuffix(j.by, ".service"):
		return d.Config.Edit(name, value) + "; then: systemctl restart " + j.by
	case d.Config.Path != "":
		return d.Config.Edit(name, value)
	}
	flag := "--" + config.Among(config.Keys(), name).Flag()
	if value != "true" {
		flag += " " + value
	}
	if ok {
		return "add " + flag + " to this line of " + j.by + ": " + j.line
	}
	return strings.TrimSpace(typed + " " + flag)
}

// configFile looks at the file that was read, which load has found sound.
func (d *examination) configFile() {
	path := d.Config.Path
	if path == "" {
		d.note("config:none", "gpuboard init node DIR, or gpuboard init web DIR",
			"no configuration file: defaults, variables and flags are in force")
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.bad("config:unreadable", "ls -l "+shell.Quote(path), "the configuration cannot be read: %v", err)
	case info.Mode().Perm()&0o002 != 0:
		d.bad("config:mode", "chmod o-w "+shell.Quote(path),
			"everybody can write %s, and so change what this program does", path)
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

	// The board decides which difference is too large, from a snapshot of this moment. The date has no fractions.
	ours := min(max(sent.Unix(), theirs.Unix()), received.Unix())
	node := &snapshot.Snapshot{
		CollectedAt:     snapshot.TimeOf(time.Unix(ours, 0)),
		IntervalSeconds: int(cmp.Or(d.Config.Duration("every"), node.MinAuto).Seconds()),
	}
	b, _ := board.Merge(board.Input{
		Now: theirs, Settings: d.Config.Board(), Hosts: []inventory.Host{{Name: "this"}},
		Reports: map[string]board.Report{"this": {Snapshot: node, SeenAt: theirs}},
	})
	for _, p := range b.Hosts[0].Problems {
		d.bad(p.Code, "timedatectl set-ntp true",
			"this clock and the web server's differ by %s", snapshot.Length(b.Hosts[0].ClockOffset))
		return
	}
	d.ok("clock:ok", "this clock agrees with the web server's")
}

// probe reports whether the program can write where it would.
func (d *examination) probe(code, what, dir string) bool {
	err := config.Writable(dir)
	if err != nil {
		d.bad(code+":unwritable", d.takeOver(dir), "%s cannot be written by uid %d: %v", what, d.euid, err)
	}
	return err == nil
}

// takeOver is what to type where this user may not use a file.
func (d *examination) takeOver(path string) string {
	return Own(path, d.euid, d.own("doctor "+d.side, config.NodeAndWebKeys()...))
}

// Own is what to type where an account may not use a file: what makes the file that account's, or, where another one
// has it that is not root, which may be a service's, the command as that one.
func Own(path string, uid int, command string) string {
	if info, err := os.Stat(path); err == nil && ownerUID(info) > 0 && ownerUID(info) != uid {
		if owner, err := user.LookupId(strconv.Itoa(ownerUID(info))); err == nil {
			return "sudo -u " + owner.Username + " " + command + "    (it belongs to that account)"
		}
	}
	return fmt.Sprintf("chown %d %s", uid, shell.Quote(path))
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
