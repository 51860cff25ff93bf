package config

import (
	"cmp"
	"path/filepath"
	"strings"

	"gpuboard/internal/booking"
	"gpuboard/internal/failure"
)

// CommentsPath returns the path of comments.json.
func (c *Config) CommentsPath() string {
	return cmp.Or(c.String("comments"), filepath.Join(c.String("data"), "comments.json"))
}

// LocalComments returns CommentsPath, and refuses a URL.
func (c *Config) LocalComments() (string, error) {
	path := c.CommentsPath()
	if strings.Contains(path, "://") {
		return "", failure.Usage(
			"on the web host name the file with --comments FILE; elsewhere set booking.ssh to the web host",
			"comments from %s is %s, and not a file on this machine",
			c.Origin("comments"),
			path,
		)
	}
	return path, nil
}

// Bookings returns the file of bookings at a path. If it is empty or gone, the copy that the
// generator keeps in its state directory tells what was in it, unless flags name other
// bookings than the generator's.
func (c *Config) Bookings(path string) *booking.File {
	f := booking.Open(path, c.BookingZone(false))
	flag := func(name string) bool { return strings.HasPrefix(c.Origin(name), "--") }
	if (flag("data") || flag("comments")) && !flag("state") {
		return f
	}
	return f.WithCopy(c.String("state"))
}

// AliasesPath returns the path of aliases.csv on the web host.
func (c *Config) AliasesPath() string { return c.AliasesIn(c.String("data")) }

// AliasesIn returns the path of aliases.csv for a data directory: where nothing else is
// said and it is not there, the one that the older GPU Monitor has.
func (c *Config) AliasesIn(data string) string {
	path := filepath.Join(data, "aliases.csv")
	if older := filepath.Join(c.String("legacy"), "aliases.csv"); !IsFile(path) && c.String("legacy") != "" &&
		IsFile(older) {
		path = older
	}
	return cmp.Or(c.String("aliases"), path)
}

// BookingLimits returns the settings that bound what one person may book.
func (c *Config) BookingLimits() (booking.Limits, error) {
	l := booking.Limits{MaxGPUs: int(c.Number("booking.max_gpus"))}
	for _, name := range []string{"booking.max_duration", "booking.default_duration"} {
		s := c.String(name)
		if s == "" || s == "none" {
			continue
		}
		length, err := booking.ParseDuration(s)
		if err != nil {
			return l, failure.Usage("for instance 7d or 36h", "%s from %s: %w", name, c.Origin(name), err)
		}
		if name == "booking.max_duration" {
			l.MaxDuration = length
		}
	}
	return l, nil
}

// KeysDir returns the directory of the nodes' public keys, which the drop box reads.
func (c *Config) KeysDir() string {
	return cmp.Or(c.String("keys"), filepath.Join(c.String("state"), "keys"))
}

// ReceiveAddress returns where the drop box listens. A listen in the configuration file is for the web server.
func (c *Config) ReceiveAddress() string {
	if !c.Given("listen") || c.InFile("listen") {
		return "127.0.0.1:2222"
	}
	return c.String("listen")
}
