package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/booking"
)

// Zone returns the time zone in which pages and commands show times.
func (c *Config) Zone() *time.Location { return c.zone("timezone", time.Local) }

// Languages returns the languages of the pages: the site's own, and then the others.
func (c *Config) Languages() []string {
	all := []string{c.String("language")}
	for _, lang := range c.List("languages") {
		if !slices.Contains(all, lang) {
			all = append(all, lang)
		}
	}
	return all
}

// LegacyZone returns the zone of times that the older scripts write: the site's,
// unless somebody said.
func (c *Config) LegacyZone() *time.Location { return c.zone("legacy_zone", c.Zone()) }

func (c *Config) zone(name string, otherwise *time.Location) *time.Location {
	if zone, err := time.LoadLocation(c.String(name)); err == nil && c.String(name) != "" {
		return zone
	}
	return otherwise
}

// BookingZone returns the zone of the times in comments.json: booking.timezone,
// else timezone, else that of this machine, the web host. The zone belongs to the
// file. Where one person sets another zone for themselves, by TZ or --timezone,
// the times that they write carry an offset, so that everybody reads the same
// instant. mine says that the settings are one person's and not the site's.
func (c *Config) BookingZone(mine bool) booking.Zone {
	zone := booking.Zone{DayStarts: !c.Bool("booking.end_of_day")}
	switch {
	case c.String("booking.timezone") != "":
		zone.Location = c.zone("booking.timezone", time.UTC)
	case c.String("timezone") != "":
		zone.Location, zone.Offsets = c.Zone(), mine && !c.InFile("timezone")
	default:
		zone.Location, zone.Offsets = MachineZone(), true
	}
	return zone
}

// ZoneName is the name of this machine's zone, as the system finds it: in TZ, as the target of
// /etc/localtime, or in /etc/timezone. It is "" if none of them has a name.
func ZoneName(getenv func(string) string) string {
	timezone, _ := os.ReadFile("/etc/timezone") // which only Debian has
	for _, name := range []string{
		strings.TrimPrefix(getenv("TZ"), ":"), MachineZone().String(), strings.TrimSpace(string(timezone)),
	} {
		if _, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
			return name
		}
	}
	return ""
}

// MachineZone returns the zone of this machine, whatever TZ says for the user who
// runs the program.
func MachineZone() *time.Location {
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
