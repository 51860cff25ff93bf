// Package config is the one table of settings: defaults, overlaid by the
// configuration file, the environment and the flags, in this order.
package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
)

// A Config holds the settings in force. Load makes one.
type Config struct {
	// Path is the file that was read; "" for none. Named reports that --config named it.
	Path  string
	Named bool
	// What a list of strings cannot say, from the file alone.
	Hosts      []inventory.Entry
	ShortNames map[string]string
	Hooks      []Hook
	// Pretend reports that --now was given for this run, Once that the process ends
	// after one generation, Preview that it only says what would change in the site.
	Pretend, Once, Preview bool

	getenv func(string) string
	values map[string]string // by key name
	origin map[string]string // by key name: "default", "gpuboard.yml:3", "GPUBOARD_DATA", "--data"
	// columns are where the values of the file begin in their lines, by key name.
	columns map[string]int
}

func empty(getenv func(string) string) *Config {
	return &Config{
		getenv: getenv, values: map[string]string{}, origin: map[string]string{}, columns: map[string]int{},
		ShortNames: map[string]string{},
	}
}

func errorf(format string, args ...any) error { return failure.Usage("", format, args...) }

// Sources are what Load reads besides the file.
type Sources struct {
	Getenv func(string) string
	// Flag returns the value of a flag, by its name without dashes, if it was
	// given. nil means that there are no flags.
	Flag func(name string) (value string, given bool)
}

// Load reads the file, the environment and the flags, and checks every value.
func Load(from Sources) (*Config, error) {
	if from.Flag == nil {
		from.Flag = func(string) (string, bool) { return "", false }
	}
	c := empty(from.Getenv)
	for _, k := range Keys() {
		c.Set(k.Name, k.DefaultHere(from.Getenv), "default")
	}
	_, c.Named = from.Flag("config")
	if err := c.readFile(from.file()); err != nil {
		return nil, err
	}
	for _, k := range Keys() {
		if v := from.Getenv(k.Env()); v != "" {
			if err := k.check(v); err != nil {
				return nil, errorf("%s: %w", k.Env(), err)
			}
			c.Set(k.Name, v, k.Env())
		}
		if v, given := from.Flag(k.Flag()); given {
			if err := k.check(v); err != nil {
				return nil, errorf("--%s: %w", k.Flag(), err)
			}
			c.Set(k.Name, v, "--"+k.Flag())
		}
	}
	if err := c.checkLanguages(); err != nil {
		return nil, err
	}
	if c.Given("hosts") && !c.InFile("hosts") {
		c.Hosts = nil // a flag or a variable names them anew
		for _, name := range c.List("hosts") {
			c.Hosts = append(c.Hosts, inventory.Entry{Name: name})
		}
	}
	return c, nil
}

// LoadFile is Load with the configuration file at path, and without flags.
func LoadFile(path string, getenv func(string) string) (*Config, error) {
	return Load(Sources{Getenv: getenv, Flag: func(name string) (string, bool) { return path, name == "config" }})
}

// Set puts a value into force, from the named origin.
func (c *Config) Set(name, value, origin string) { c.values[name], c.origin[name] = value, origin }

// Origin says where a value comes from: "default", FILE:LINE, a variable or a flag.
func (c *Config) Origin(name string) string { return c.origin[mustKey(c, name)] }

// Given reports whether somebody set a value.
func (c *Config) Given(name string) bool { return c.Origin(name) != "default" }

// InFile reports whether a value comes from the configuration file.
func (c *Config) InFile(name string) bool {
	return c.Path != "" && strings.HasPrefix(c.Origin(name), c.Path+":")
}

// mustKey returns the name of a setting that the program itself asks for.
func mustKey(c *Config, name string) string {
	if _, known := c.values[name]; !known {
		panic("gpuboard/config: no setting is called " + name)
	}
	return name
}

// String returns the value of a setting as text.
func (c *Config) String(name string) string { return c.values[mustKey(c, name)] }

// Duration returns the value of a duration; "" and auto are 0.
func (c *Config) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.String(name)) // checked by Load
	return d
}

// Number returns the value of a number; "" is 0.
func (c *Config) Number(name string) float64 {
	n, _ := strconv.ParseFloat(c.String(name), 64) // checked by Load
	return n
}

// Bool returns the value of a switch.
func (c *Config) Bool(name string) bool {
	b, _ := strconv.ParseBool(c.String(name)) // checked by Load
	return b
}

// List returns the items of a list.
func (c *Config) List(name string) []string { return items(c.String(name)) }

func items(value string) (all []string) {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

// containerPeople parses the items of container_people.
func containerPeople(value string) (people []board.ContainerPerson, err error) {
	for _, item := range items(value) {
		pattern, login, _ := strings.Cut(item, "=")
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || !snapshot.Fits("login", login) {
			return nil, fmt.Errorf("%q is not of the form NAME=LOGIN, where a * in the name stands for any text", item)
		}
		people = append(people, board.ContainerPerson{Pattern: pattern, Login: login})
	}
	return people, nil
}

// A Site is another board: its name here, and the address or directory of its site.
type Site struct{ Name, Place string }

// Sites returns the boards of other clusters.
func (c *Config) Sites() []Site {
	sites, _ := sitesOf(c.List("sites")) // checked by Load
	return sites
}

func sitesOf(values []string) (sites []Site, err error) {
	if len(values) > board.MaxSites {
		return nil, fmt.Errorf("these are %d sites, and %d are the most", len(values), board.MaxSites)
	}
	for _, v := range values {
		name, place, _ := strings.Cut(v, "=")
		s := Site{Place: strings.TrimSpace(place)}
		if s.Name, err = snapshot.ParseHost(strings.TrimSpace(name)); err != nil {
			return nil, fmt.Errorf("%q is not of the form NAME=URL: the name is like that of a host", name)
		}
		scheme, _, address := strings.Cut(s.Place, "://")
		if s.Place == "" || address && !slices.Contains([]string{"https", "http", "s3"}, scheme) {
			return nil, fmt.Errorf("%s needs the address of a site (https://… or s3://bucket/prefix) or its directory",
				s.Name)
		}
		if LacksScheme(s.Place) {
			return nil, fmt.Errorf("%s: an address begins with its scheme: https://%s", s.Name, s.Place)
		}
		if slices.ContainsFunc(sites, func(other Site) bool { return other.Name == s.Name }) {
			return nil, fmt.Errorf("two sites are called %s", s.Name)
		}
		sites = append(sites, s)
	}
	return sites, nil
}

// A Pulled is a node that the web host reads: its name on the board, and how it logs in there.
type Pulled struct{ Host, Login string }

// Pulled returns the nodes that are read over SSH; every is true for all hosts of the list.
func (c *Config) Pulled() (nodes []Pulled, every bool) {
	nodes, _ = pulledOf(c.List("pull")) // checked by Load
	return nodes, c.String("pull") == "all"
}

func pulledOf(values []string) (nodes []Pulled, err error) {
	if slices.Equal(values, []string{"all"}) {
		return nil, nil
	}
	for _, v := range values {
		name, login, named := strings.Cut(v, "=")
		if !named {
			login = v
		}
		n := Pulled{Login: login}
		if n.Host, err = HostOfLogin(login); err != nil {
			return nil, fmt.Errorf("%q is not of the form HOST=user@host: %w", v, err)
		}
		if named {
			n.Host, err = snapshot.ParseHost(name)
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(nodes, func(other Pulled) bool { return other.Host == n.Host }) {
			return nil, fmt.Errorf("%s is named twice", n.Host)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// HostOfLogin returns the name on the board of a node that nobody has named otherwise.
func HostOfLogin(login string) (string, error) {
	_, host, _, err := sshclient.Parse(login)
	if err != nil {
		return "", err
	}
	return snapshot.ParseHost(host)
}

// LacksScheme reports whether what should be a directory looks like an address without https://.
func LacksScheme(place string) bool {
	host, _, _ := strings.Cut(place, "/")
	return strings.Contains(host, ".") && !strings.HasPrefix(host, ".") && !strings.Contains(place, "://") &&
		!IsDir(place)
}

// Board returns the thresholds behind the states of GPUs and hosts.
func (c *Config) Board() board.Settings {
	people, _ := containerPeople(c.String("container_people")) // checked by Load
	return board.Settings{
		StaleAfter: c.Duration("stale_after"), DownAfter: c.Duration("down_after"),
		ClockTolerance: c.Duration("clock_tolerance"),
		FreeMemoryMiB:  int64(c.Number("free_memory_mib")), FreeMemoryPercent: c.Number("free_memory_percent"),
		NoShow: c.Duration("no_show_after"), IdleWindow: c.Duration("idle_window"),
		IdleNotice:  c.Duration("idle_notice"),
		ShowExpired: c.Duration("show_expired"), ShortNames: c.ShortNames,
		ServiceAccounts: c.List("service_accounts"), TrustContainerUIDs: c.String("container_uids") == "trusted",
		ContainerPeople: people,
	}
}

// Privacy returns what a site shows of people and their processes. The settings of the public
// site have the prefix "public_".
func (c *Config) Privacy(prefix string) board.Privacy {
	users, programs := c.String(prefix+"users"), c.String(prefix+"commands")
	return board.Privacy{Users: board.UserPrivacy(users), Programs: board.ProgramPrivacy(programs)}
}
