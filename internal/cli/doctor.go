package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// The states of a finding. Only what is not well counts for the exit code.
const (
	foundWell = "ok"
	foundBad  = "bad"
	foundNote = "note" // not set up, or not to be seen from here
)

// A finding is one thing that doctor looked at. Codes are stable; where a room
// has a code of its own for a fault, it is that one.
type finding struct {
	State   string `json:"state"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Mend    string `json:"mend,omitempty"` // what to type
}

// A valueInForce is one setting, and where it comes from.
type valueInForce struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// examination is what doctor prints with --json.
type examination struct {
	SchemaVersion int            `json:"schema_version"`
	Version       string         `json:"version"`
	Sides         []string       `json:"sides"`
	Config        string         `json:"config"`
	InForce       []valueInForce `json:"in_force"`
	Findings      []finding      `json:"findings"`
	Well          bool           `json:"well"`
}

// A doctor looks at everything once and goes on after each finding.
type doctor struct {
	app      *app
	cfg      *config.Config
	proc     string // /proc
	euid     int
	findings []finding
	mounts   map[string]bool // by path; nil until somebody asks
	config   string          // as --config named it
}

func (d *doctor) add(state, code, mend, format string, args ...any) {
	d.findings = append(d.findings, finding{State: state, Code: code, Message: snapshot.Text(fmt.Sprintf(format, args...), 1000), Mend: mend})
}

func (d *doctor) ok(code, format string, args ...any) { d.add(foundWell, code, "", format, args...) }
func (d *doctor) note(code, mend, format string, args ...any) {
	d.add(foundNote, code, mend, format, args...)
}
func (d *doctor) bad(code, mend, format string, args ...any) {
	d.add(foundBad, code, mend, format, args...)
}

// own is a command of this program for what is being looked at: to be typed as
// it stands, it has to name the configuration that doctor was given.
func (d *doctor) own(command string) string {
	if d.config != "" {
		command += " --config " + word(d.config)
	}
	return "gpuboard " + command
}

const (
	sideNode = "node"
	sideWeb  = "web"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor [node|web]", Short: "say what is in force, from where, and whether it works", GroupID: groupSetup,
		Args: cobra.MaximumNArgs(1), ValidArgs: []string{sideNode, sideWeb},
		Long: "doctor walks through what this machine is set up to do: every setting with its origin, then\n" +
			"every part that has to work. What is not well comes with a stable code and with what to\n" +
			"type. It changes nothing but a temporary file that it makes and removes where the program\n" +
			"would write. Run it as the user who runs the program, and name the side where a machine\n" +
			"looks like both.\n" + exitStatus,
		Example: "  gpuboard doctor node\n  gpuboard doctor web --data /srv/gpuboard/data --site /srv/gpuboard/site\n  gpuboard doctor --json",
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			sides := a.sides(cfg)
			if len(args) == 1 {
				if args[0] != sideNode && args[0] != sideWeb {
					return usagef("gpuboard doctor node, or gpuboard doctor web", "there is no side %q", args[0])
				}
				sides = args
			}
			d := &doctor{app: a, cfg: cfg, proc: "/proc", euid: os.Geteuid()}
			if f := c.Flags().Lookup("config"); f != nil && f.Changed {
				d.config = f.Value.String()
			}
			d.configFile()
			for _, side := range sides {
				switch side {
				case sideNode:
					d.node(c.Context())
				case sideWeb:
					d.web(c.Context())
				}
			}
			if c.Context().Err() != nil {
				return fail(exitTempFail, errors.New("interrupted"), "")
			}
			report := d.report(sides)
			if asJSON {
				err = writeJSON(a.stdout, report)
			} else {
				err = report.print(a)
			}
			if err == nil && !report.Well {
				return silent(exitDegraded)
			}
			return err
		},
	}
	both := config.NodeKeys()
	for _, name := range config.WebKeys() {
		if !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	a.flags(c, both...)
	c.Flags().BoolVar(&asJSON, "json", false, "print settings and findings as JSON")
	return c
}

// sides guesses what this machine is: what is configured to push is a node,
// what has a data directory is a web host.
func (a *app) sides(cfg *config.Config) []string {
	var sides []string
	if cfg.String("to") != "" {
		sides = append(sides, sideNode)
	}
	if info, err := os.Stat(cfg.String("data")); err == nil && info.IsDir() || cfg.Given("data") {
		sides = append(sides, sideWeb)
	}
	if len(sides) == 0 {
		sides = []string{sideNode}
	}
	return sides
}

func (d *doctor) report(sides []string) examination {
	e := examination{SchemaVersion: 1, Version: version(), Sides: sides, Config: d.cfg.Path, Findings: d.findings, Well: true}
	for _, f := range d.findings {
		e.Well = e.Well && f.State != foundBad
	}
	var used []string
	if slices.Contains(sides, sideNode) {
		used = append(used, config.NodeKeys()...)
	}
	if slices.Contains(sides, sideWeb) {
		used = append(used, config.WebKeys()...)
	}
	for _, k := range config.Keys() {
		// A setting of the other side is of interest when somebody has set it here.
		if slices.Contains(used, k.Name) || d.cfg.Given(k.Name) {
			e.InForce = append(e.InForce, valueInForce{k.Name, shown(k.Name, d.cfg.String(k.Name)), d.cfg.Origin(k.Name)})
		}
	}
	return e
}

// shown is a value as doctor prints it: what looks like a secret stays one.
func shown(name, value string) string {
	for _, word := range []string{"token", "password", "secret", "webhook"} {
		if strings.Contains(name, word) && value != "" {
			return "(set, not shown)"
		}
	}
	return value
}

func (e examination) print(a *app) error {
	var b strings.Builder
	fmt.Fprintf(&b, "gpuboard %s, looking at this machine as %s\n\nIn force:\n", e.Version, strings.Join(e.Sides, " and "))
	wide, widest := 0, 0
	for _, v := range e.InForce {
		wide, widest = max(wide, len(v.Key)), max(widest, min(len(v.Value), 40))
	}
	for _, v := range e.InForce {
		value := v.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(&b, "  %-*s  %-*s  %s\n", wide, v.Key, widest, value, v.Origin)
	}
	b.WriteString("\nFound:\n")
	bad := 0
	for _, f := range e.Findings {
		state := f.State
		if state == foundBad {
			state = "BAD"
			bad++
		}
		fmt.Fprintf(&b, "  %-4s  %s [%s]\n", state, f.Message, f.Code)
		if f.Mend != "" {
			fmt.Fprintf(&b, "        mend: %s\n", f.Mend)
		}
	}
	if bad == 0 {
		b.WriteString("\nAll is well.\n")
	} else {
		fmt.Fprintf(&b, "\n%d of %d findings are not well.\n", bad, len(e.Findings))
	}
	_, err := fmt.Fprintln(a.stdout, printable(b.String()))
	return err
}

// configFile looks at the file that was read, which load has found sound.
func (d *doctor) configFile() {
	path := d.cfg.Path
	if path == "" {
		d.note("config:none", "gpuboard init node DIR, or gpuboard init web DIR", "no configuration file: defaults, variables and flags are in force")
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.bad("config:unreadable", "ls -l "+word(path), "the configuration cannot be looked at: %v", err)
	case info.Mode().Perm()&0o002 != 0:
		d.bad("config:mode", "chmod o-w "+word(path), "everybody may write %s, and so decide what this program does", path)
	default:
		d.ok("config:ok", "%s can be read, and every line of it is understood", path)
	}
}

// clockBy compares this clock with the Date of a web server's answer, which
// was given somewhere between sent and received.
func (d *doctor) clockBy(date string, sent, received time.Time) {
	theirs, err := time.Parse(time.RFC1123, date)
	if err != nil {
		d.note("clock:unknown", "", "the web server does not say what time it has")
		return
	}
	off := max(sent.Sub(theirs.Add(time.Second)), theirs.Sub(received))
	if tolerance := d.cfg.Duration("clock_tolerance"); off > tolerance {
		d.bad("clock:off", "timedatectl set-ntp true", "this clock and the web server's differ by %v, and %v are borne", off.Round(time.Second), tolerance)
		return
	}
	d.ok("clock:ok", "this clock agrees with the web server's")
}

// probe makes and removes a file where the program would write.
func (d *doctor) probe(code, what, dir string) bool {
	f, err := os.CreateTemp(dir, ".tmp-doctor-")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.bad(code+":unwritable", fmt.Sprintf("chown %d %s", d.euid, word(dir)), "%s cannot be written by uid %d: %v", what, d.euid, err)
	}
	return err == nil
}

// room says when a disk is about to be full.
func (d *doctor) room(what, dir string) {
	const leastBytes, leastFiles = 256 << 20, 1000
	free, files, err := diskFree(dir)
	switch {
	case err != nil:
		d.note("disk:unknown", "", "%s: %v", what, err)
	case free < leastBytes:
		d.bad("disk:space", "df -h "+word(dir), "%s has %d MiB left on its disk", what, free>>20)
	case files < leastFiles:
		d.bad("disk:inodes", "df -i "+word(dir), "%s has %d inodes left on its disk", what, files)
	default:
		d.ok("disk:ok", "%s has %d MiB and enough inodes left", what, free>>20)
	}
}

// oneFileSystem names what below dir lies on another file system: a file is
// replaced by renaming a temporary beside it, and what is mounted cannot be
// renamed over.
func (d *doctor) oneFileSystem(ctx context.Context, what, dir string, depth int) {
	if ctx.Err() != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if d.isMounted(path) {
			d.bad("paths:mount", "umount "+word(path), "%s lies on another file system than %s (%s): files there cannot be replaced in one step", path, dir, what)
		} else if entry.IsDir() && depth > 1 {
			d.oneFileSystem(ctx, what, path, depth-1)
		}
	}
}

// word quotes a path for a shell.
func word(s string) string { return shell.Quote(s) }
