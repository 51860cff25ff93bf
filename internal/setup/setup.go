// Package setup fills a directory with what a web host or a node begins with.
package setup

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
)

// The sides of the program that a machine can be set up for.
const (
	Node = "node"
	Web  = "web"
)

// Options say what to set up, and on what machine.
type Options struct {
	Side string // Node or Web
	Dir  string // the directory to fill
	Host string // this machine's name; "" for its own
	To   string // the URL of the drop that a node pushes to; "" for none yet
	Site string // the directory of the site; "" for one in Dir
	From string // the file in which another board lists its hosts; "" for none

	Program     string // the path of this program
	User, Group string // whom the units run as; "" for an account of its own, which root sets up
	Systemd     bool   // it can keep the site in memory, where root sets it up
	Packaged    bool   // a package has installed the units, which read /etc/gpuboard
	Getenv      func(string) string
	Out         io.Writer
}

// An installation is one directory being filled.
type installation struct {
	Options
	root     bool              // root sets it up, for another account
	asked    map[string]string // settings that flags named
	imported *hostList         // another board's hosts, nil for none
	// The settings that this machine decides. Those of an existing configuration
	// take their place.
	settings map[string]string
}

// Init writes a configuration and the files that start the program, and says what
// to type next. It overwrites nothing: in an existing configuration it only adds
// settings that are not there.
func Init(o Options) error {
	in, err := newInstallation(o)
	if err != nil {
		return err
	}
	merged, err := in.mergeConfig()
	if err != nil {
		return err
	}
	files, err := in.files()
	if err != nil {
		return err
	}
	if len(merged) > 0 {
		delete(files, configFile)
	}
	directories := in.directories()
	directories["."] = 0o755 // first, so that it does not take the mode of what lies in it
	for _, dir := range slices.Sorted(maps.Keys(directories)) {
		if err := os.MkdirAll(filepath.Join(in.Dir, dir), directories[dir]); err != nil {
			return failure.Usage("choose a directory of your own: gpuboard init "+in.Side+" DIR",
				"making a directory: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := in.write(name, files[name]); err != nil {
			return err
		}
	}
	for _, line := range merged {
		fmt.Fprintf(in.Out, "added  %s to %s\n", line, in.path(configFile))
	}
	in.sayImported()
	_, err = fmt.Fprint(in.Out, "\n", in.next())
	return err
}

func newInstallation(o Options) (*installation, error) {
	in := &installation{Options: o, root: o.User == ""}
	if in.root {
		in.User, in.Group = "gpuboard", "gpuboard"
	}
	var err error
	if in.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("finding %s: %w", o.Dir, err)
	}
	// Crontabs, units and ssh each quote in a way of their own.
	for _, p := range []string{in.Dir, in.Program} {
		if shell.Quote(p) != p || strings.Contains(p, ",") {
			return nil, failure.Usage("use a path of letters, digits and -_./+@:",
				"%s has characters that not every file can contain", p)
		}
	}
	if home := hiddenHome(in.Dir); in.root && home != "" {
		return nil, failure.Usage(
			shell.Join("gpuboard", "init", in.Side,
				map[string]string{Node: "/etc/gpuboard", Web: "/srv/gpuboard"}[in.Side]),
			"the account %s, which is to run gpuboard, cannot read anything below %s", in.User, home)
	}
	if home := hiddenHome(in.Program); in.root && home != "" {
		return nil, failure.Usage("install -m 755 "+in.Program+" /usr/local/bin/ && hash -r",
			"the account %s, which is to run gpuboard, cannot read anything below %s", in.User, home)
	}
	machine := "machine"
	switch o.Side {
	case Node:
		machine = "node"
		if o.From != "" {
			return nil, failure.Usage("gpuboard init web DIR --from FILE",
				"a node has no list of hosts: --from is for the web host")
		}
		in.Host = cmp.Or(in.Host, config.ShortHostname())
		if o.To != "" {
			if _, err := publisher.ParseTarget(o.To); err != nil {
				return nil, err
			}
		}
	case Web:
		if o.To != "" {
			return nil, failure.Usage("gpuboard init node DIR --to URL", "a web host does not push: --to is for nodes")
		}
		if in.Host == "" {
			if in.Host, err = os.Hostname(); err != nil {
				return nil, fmt.Errorf("asking for this machine's name: %w", err)
			}
		}
	default:
		return nil, failure.Usage("gpuboard init web DIR, or gpuboard init node DIR", "there is no side %q", o.Side)
	}
	if in.Host, err = snapshot.ParseHost(in.Host); err != nil {
		return nil, failure.Usage("name this "+machine+" with --host NAME", "%w", err)
	}
	if o.From != "" {
		if in.imported, err = readHosts(o.From, o.Dir); err != nil {
			return nil, err
		}
	}
	in.asked = map[string]string{}
	if o.Side == Node && o.Host != "" {
		in.asked["host"] = in.Host
	}
	for name, value := range map[string]string{"to": o.To, "site": o.Site} {
		if value != "" {
			in.asked[name] = value
		}
	}
	in.settings = in.decided()
	return in, nil
}

// path is a name in the directory.
func (in *installation) path(name string) string { return filepath.Join(in.Dir, name) }

// directories are those to make, with their modes.
func (in *installation) directories() map[string]fs.FileMode {
	all := map[string]fs.FileMode{"setup": 0o755}
	if in.Side == Web {
		all["data/drop"], all["state"], all["state/keys"] = 0o755, 0o700, 0o700
	}
	for name, mode := range map[string]fs.FileMode{"site": 0o755, "spool": 0o700} {
		if in.settings[name] == in.path(name) {
			all[name] = mode
		}
	}
	return all
}

// write makes a file, unless its name is taken. Nobody sees half of it: another init would take that for a
// configuration of somebody.
func (in *installation) write(name, content string) error {
	path := in.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	staged := filepath.Join(filepath.Dir(path), ".tmp-"+rand.Text())
	f, err := os.OpenFile(staged, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		defer os.Remove(staged)
		_, err = f.WriteString(content)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Link(staged, path)
	}
	said := "wrote "
	if errors.Is(err, fs.ErrExist) {
		said, err = "kept  ", nil
	}
	if err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	_, err = fmt.Fprintf(in.Out, "%s %s\n", said, path)
	return err
}

// decided are the settings that this machine and the flags decide.
func (in *installation) decided() map[string]string {
	if in.Side == Node {
		set := map[string]string{"host": in.Host, "spool": in.path("spool"), "identity": in.path("id_ed25519"),
			"known_hosts": in.path("known_hosts")}
		maps.Copy(set, in.asked)
		return set
	}
	set := map[string]string{"data": in.path("data"), "site": in.path("site"), "state": in.path("state")}
	if in.root && in.Systemd {
		set["site"] = SiteInMemory
	}
	maps.Copy(set, in.asked)
	switch c := in.comments(); c {
	case usualComments:
	case "":
		set["comments"] = filepath.Join(in.imported.data, "comments.json")
	default:
		set["comments"] = in.path(c)
	}
	// The zone is written down so that the times in the bookings mean the same
	// wherever they are read.
	if zone := config.ZoneName(in.Getenv); zone != "" {
		set["timezone"] = zone
	}
	if l := in.imported; l != nil {
		maps.Copy(set, l.settings)
		for name, value := range map[string]string{"booking.timezone": l.zone, "compat": l.compat, "legacy": l.data} {
			if value != "" {
				set[name] = value
			}
		}
		if l.zone != "" { // the older page's bookings
			set["booking.end_of_day"] = "false"
		}
	}
	return set
}

// SiteInMemory is where the site lies on a machine with systemd. It can be made
// again at any moment, and is written several times as fast there. Units and
// systemd-tmpfiles make its directory at every start of the machine.
const SiteInMemory = "/run/gpuboard/site"

func (in *installation) inMemory() bool { return in.settings["site"] == SiteInMemory }

// usualComments is where bookings lie when nothing else is said.
const usualComments = "data/comments.json"

// comments is where the bookings lie. Whoever books must be able to write the
// directory, and sshd wants every directory above a node's drop to be root's. So
// where root sets up a web host for another account, the bookings get a directory
// of their own, unless there are bookings already. It is "" where they stay with the
// older page.
func (in *installation) comments() string {
	_, err := os.Lstat(in.path(usualComments))
	switch {
	case err != nil && in.imported != nil && in.imported.data != "":
		return ""
	case err != nil && in.root:
		return "bookings/comments.json"
	}
	return usualComments
}

func (in *installation) sayImported() {
	l := in.imported
	if l == nil {
		return
	}
	fmt.Fprintf(in.Out, "\nHosts from %s: %d\n", in.From, len(l.hosts))
	if len(l.unnamed) > 0 {
		fmt.Fprintf(in.Out, "%d addresses without a name: say what those nodes call themselves, at the end of %s\n",
			len(l.unnamed), in.path(configFile))
	}
	if service := l.settings["consul.service"]; service != "" {
		fmt.Fprintf(in.Out,
			"the old page asks Consul for the hosts of service %s, and so does this one: consul in %s\n",
			service, in.path(configFile))
	}
	if l.zone != "" {
		fmt.Fprintf(in.Out,
			"the old page reads the times of bookings in %s (%s), and so does this one: booking.timezone in %s\n",
			l.zone, l.zoneFrom, in.path(configFile))
	}
	if l.data != "" {
		fmt.Fprintf(in.Out,
			"the old page's data is read in %s; bookings are in %s, and who books must be able to write there\n",
			l.data, cmp.Or(in.settings["comments"], in.path(usualComments)))
	}
	if l.zone != "" {
		fmt.Fprintln(in.Out,
			"as long as people look at the old page: it shows one booking for a GPU, by its number, from now on; not bookings that begin later, of a whole host (*) or by UUID")
	}
	for _, reason := range l.refused {
		fmt.Fprintf(in.Out, "left out: %s\n", reason)
	}
}
