package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
)

// config is what is in force: defaults, overlaid by the file, the environment
// and the flags, in this order.
type config struct {
	values map[string]string // by key name
	origin map[string]string // by key name: "default", "gpuboard.yml:3", "GPUBOARD_DATA", "--data"
	// What a list of strings cannot say, from the file alone.
	hosts      []inventory.Entry
	shortNames map[string]string
	hooks      []hookEntry
	pretend    bool   // --now was given
	once       bool   // one generation, and the process ends
	path       string // of the file that was read; "" for none
}

// A key is one setting. Its flag is --name-with-dashes, its variable
// GPUBOARD_NAME_WITH_UNDERSCORES, and in the file a dot is a section.
type key struct {
	name  string // "consul.service"
	value string // the default
	kind  kind
	arg   string // how help calls the value: DIR, FILE, DURATION
	help  string
}

type kind int

const (
	text kind = iota
	duration
	number
	boolean
	list // separated by commas
)

func (k key) flag() string {
	switch k.name {
	// What switches a whole way of working on goes by one word.
	case "register.enabled":
		return "register"
	case "consul.leader":
		return "leader"
	}
	return strings.ReplaceAll(strings.ReplaceAll(k.name, ".", "-"), "_", "-")
}

func (k key) env() string {
	return "GPUBOARD_" + strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(k.name, ".", "_"), "-", "_"))
}

// check returns what is wrong with a value, or nil.
func (k key) check(s string) error {
	switch k.kind {
	case duration:
		if s == "" {
			return nil
		}
		if d, err := time.ParseDuration(s); err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration; write it as 20s, 5m or 24h", s)
		}
	case number:
		if s == "" {
			return nil
		}
		if n, err := strconv.ParseFloat(s, 64); err != nil || n < 0 {
			return fmt.Errorf("%q is not a number", s)
		}
	case boolean:
		if _, err := strconv.ParseBool(s); err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
	}
	return nil
}

// flags declares the flags of the named keys on a command.
func (a *app) flags(c *cobra.Command, names ...string) {
	all := keys() // which makes a table each time
	for _, name := range names {
		k := among(all, name)
		usage := k.help
		if k.arg != "" {
			usage = strings.Replace(usage, k.arg, "`"+k.arg+"`", 1)
			if !strings.Contains(usage, "`") {
				usage = "`" + k.arg + "`: " + usage
			}
		}
		if k.kind == boolean {
			c.Flags().Bool(k.flag(), k.value == "true", usage)
			continue
		}
		c.Flags().String(k.flag(), a.defaultOf(k), usage)
	}
}

// mustKey finds a key that the program itself names.
func mustKey(name string) key {
	return among(keys(), name)
}

func among(all []key, name string) key {
	i := slices.IndexFunc(all, func(k key) bool { return k.name == name })
	if i < 0 {
		panic("gpuboard/cli: no setting is called " + name)
	}
	return all[i]
}

// defaultOf is the default of a key, which for some depends on who runs the program.
func (a *app) defaultOf(k key) string {
	switch k.name {
	case "host":
		return shortHostname()
	case "spool":
		return a.stateDir("spool")
	case "state":
		return a.stateDir("state")
	}
	return k.value
}

// stateDir is where this user's program keeps what it needs to remember:
// /var/lib/gpuboard for root and for the service account that owns it, else
// the user's own state directory.
func (a *app) stateDir(name string) string {
	const system = "/var/lib/gpuboard"
	if os.Geteuid() == 0 || writable(system) {
		return filepath.Join(system, name)
	}
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gpuboard", name)
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "gpuboard", name)
	}
	return filepath.Join(system, name)
}

// shortHostname is the host's name up to the first dot, in lower case.
func shortHostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.ToLower(name)
}

// load reads file, environment and flags of a command, and checks every value.
func (a *app) load(c *cobra.Command) (*config, error) {
	cfg := &config{values: map[string]string{}, origin: map[string]string{}, shortNames: map[string]string{}}
	for _, k := range keys() {
		cfg.values[k.name], cfg.origin[k.name] = a.defaultOf(k), "default"
	}
	path, required := a.configPath(c)
	if err := cfg.readFile(path, required); err != nil {
		return nil, err
	}
	for _, k := range keys() {
		if v := a.getenv(k.env()); v != "" {
			if err := k.check(v); err != nil {
				return nil, usagef("", "%s: %w", k.env(), err)
			}
			cfg.values[k.name], cfg.origin[k.name] = v, k.env()
		}
		if f := c.Flags().Lookup(k.flag()); f != nil && f.Changed {
			if err := k.check(f.Value.String()); err != nil {
				return nil, usagef("", "--%s: %w", k.flag(), err)
			}
			cfg.values[k.name], cfg.origin[k.name] = f.Value.String(), "--"+k.flag()
		}
	}
	return cfg, nil
}

// configPath is the file to read, and whether it must be there.
func (a *app) configPath(c *cobra.Command) (path string, required bool) {
	var f *pflag.Flag
	if f = c.Flags().Lookup("config"); f != nil && f.Changed {
		return f.Value.String(), true
	}
	if path := a.getenv("GPUBOARD_CONFIG"); path != "" {
		return path, true
	}
	for _, path := range []string{"gpuboard.yml", "/etc/gpuboard/gpuboard.yml"} {
		if _, err := os.Stat(path); err == nil {
			return path, false
		}
	}
	return "", false
}

func (c *config) string(name string) string {
	value, known := c.values[name]
	if !known {
		return c.values[mustKey(name).name]
	}
	return value
}

// duration is the value of a key of that kind; "" is 0. load has checked it.
func (c *config) duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.string(name))
	return d
}

func (c *config) number(name string) float64 {
	n, _ := strconv.ParseFloat(c.string(name), 64)
	return n
}

func (c *config) bool(name string) bool { b, _ := strconv.ParseBool(c.string(name)); return b }

func (c *config) list(name string) []string {
	var items []string
	for item := range strings.SplitSeq(c.string(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// bookingZone is the zone that times in comments.json are in: booking.timezone,
// else timezone, else that of this machine, the web host. It belongs to the file,
// so what one person says of themselves, by TZ or by --timezone, does not make
// others read a time otherwise: then what is written carries its offset. mine is
// whether the settings are one person's, and not the site's.
func (c *config) bookingZone(mine bool) (booking.Zone, error) {
	for _, name := range []string{"booking.timezone", "timezone"} {
		zone := c.string(name)
		if zone == "" {
			continue
		}
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return booking.Zone{}, usagef("names are those of the IANA list, such as Europe/Paris or UTC", "%s from %s: %q is not a time zone", name, c.origin[name], zone)
		}
		fromFile := c.path != "" && strings.HasPrefix(c.origin[name], c.path+":")
		return booking.Zone{Location: loc, Offsets: mine && name == "timezone" && !fromFile}, nil
	}
	return booking.Zone{Location: machineZone(), Offsets: true}, nil
}

// machineZone is the zone of this machine, whatever TZ says for the one who runs
// the program.
func machineZone() *time.Location {
	const path = "/etc/localtime"
	if real, err := filepath.EvalSymlinks(path); err == nil {
		if _, name, ok := strings.Cut(real, "/zoneinfo/"); ok {
			if zone, err := time.LoadLocation(name); err == nil {
				return zone
			}
		}
	}
	if data, err := os.ReadFile(path); err == nil {
		if zone, err := time.LoadLocationFromTZData("Local", data); err == nil {
			return zone
		}
	}
	return time.UTC
}

// zone is the site's time zone, in which pages and commands show times.
func (c *config) zone() (*time.Location, error) {
	name := c.string("timezone")
	if name == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, usagef("names are those of the IANA list, such as Europe/Paris or UTC", "timezone from %s: %q is not a time zone", c.origin["timezone"], name)
	}
	return zone, nil
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".tmp-probe-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	return f.Close() == nil
}
