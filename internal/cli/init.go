package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpuboard/deploy"
	"gpuboard/internal/config"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
)

func (a *app) initCommand() *cobra.Command {
	var host, to, from string
	c := &cobra.Command{
		Use: "init web|node DIR", Short: "write a configuration, and the files that start it, into a directory", GroupID: groupSetup, Args: cobra.ExactArgs(2),
		Long: "init fills a directory with what a web host or a node begins with: a configuration in which\n" +
			"every setting stands with its default, and under setup/ a crontab, systemd units and what\n" +
			"sshd, nginx or Consul need, with this machine's paths and name in them. It installs\n" +
			"nothing, and a file that is there already stays as it is. Then it says what to type next.\n" +
			"With --from, the hosts come from another board's list: hosts.txt, index.php, config.yml,\n" +
			"nvgpu_master.cfg, an Ansible inventory, hosts.json, or what its server answers for\n" +
			"/states/, /get-status or /cluster_status.\n" + exitStatus,
		Example: "  gpuboard init web /srv/gpuboard --host gpus.example.org\n  gpuboard init web /srv/gpuboard --from hosts.txt\n  gpuboard init node /etc/gpuboard --host gpu01 --to sftp://n-gpu01@gpus.example.org/in",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.newSetup(args[0], args[1], host, to)
			if err != nil {
				return err
			}
			if from != "" {
				if s.side != sideWeb {
					return usagef("gpuboard init web DIR --from FILE", "a node has no list of hosts: --from is for the web host")
				}
				if s.older, err = readOlder(from, s.host); err != nil {
					return err
				}
				s.from = from
			}
			return s.write()
		},
	}
	c.Flags().StringVar(&host, "host", "", "`NAME` of this machine: as the board is to call a node, or as nodes reach the web host (default: its own)")
	c.Flags().StringVar(&to, "to", "", "`URL` of the drop that a node pushes to, such as sftp://n-gpu01@web.example.org/in")
	c.Flags().StringVar(&from, "from", "", "`FILE` in which another board lists its hosts")
	return c
}

// A setup is one directory being filled.
type setup struct {
	app                 *app
	side, dir, host, to string
	exe                 string
	user, group         string // whom the units run as
	root                bool   // root sets it up, for that account
	older               *older // another board's hosts, nil for none
	from                string // the file that they are from
}

func (a *app) newSetup(side, dir, host, to string) (*setup, error) {
	s := &setup{app: a, side: side, host: host, to: to, user: "gpuboard", group: "gpuboard"}
	var err error
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	if s.exe, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	// Crontabs, units and ssh each quote in a way of their own.
	for _, p := range []string{s.dir, s.exe} {
		if word(p) != p || strings.Contains(p, ",") {
			return nil, usagef("choose a path of letters, digits and -_./+@:", "%s would have to be quoted differently in every file", p)
		}
	}
	switch side {
	case sideNode:
		if s.host == "" {
			s.host = config.ShortHostname()
		}
		if s.host, err = snapshot.ParseHost(s.host); err != nil {
			return nil, usagef("name this node with --host NAME", "%w", err)
		}
		if to != "" {
			if _, err := publisher.ParseTarget(to); err != nil {
				return nil, err
			}
		}
	case sideWeb:
		if to != "" {
			return nil, usagef("gpuboard init node DIR --to URL", "a web host does not push: --to is for nodes")
		}
		if s.host == "" {
			if s.host, err = os.Hostname(); err != nil {
				return nil, fmt.Errorf("asking for this machine's name: %w", err)
			}
		}
		if s.host, err = snapshot.ParseHost(s.host); err != nil {
			return nil, usagef("name this machine with --host NAME", "%w", err)
		}
	default:
		return nil, usagef("gpuboard init web DIR, or gpuboard init node DIR", "there is no side %q", side)
	}
	if s.root = os.Geteuid() == 0; !s.root {
		me, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("finding who runs this: %w", err)
		}
		s.user, s.group = me.Username, me.Gid
	}
	return s, nil
}

// write makes every file that is not there yet, and says what to do next.
func (s *setup) write() error {
	files, err := s.files()
	if err != nil {
		return err
	}
	dirs := map[string]os.FileMode{"setup": 0o755}
	if s.side == sideWeb {
		dirs["data/drop"], dirs["site"], dirs["state"], dirs["state/keys"] = 0o755, 0o755, 0o700, 0o700
	} else {
		dirs["spool"] = 0o700
	}
	for _, dir := range sorted(dirs) {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), dirs[dir]); err != nil {
			return fail(exitUsage, fmt.Errorf("making a directory: %w", err), "choose a directory of your own: gpuboard init "+s.side+" DIR")
		}
	}
	for _, name := range sorted(files) {
		if err := s.put(name, files[name]); err != nil {
			return err
		}
	}
	if o := s.older; o != nil {
		fmt.Fprintf(s.app.stdout, "\n%d hosts from %s\n", len(o.hosts), s.from)
		if len(o.unnamed) > 0 {
			fmt.Fprintf(s.app.stdout, "%d addresses without a name: say what those nodes call themselves, at the end of %s\n", len(o.unnamed), filepath.Join(s.dir, "gpuboard.yml"))
		}
		if o.zone != "" {
			fmt.Fprintf(s.app.stdout, "the old page reads the times of bookings in %s (%s), and so does this one: booking.timezone in %s\n", o.zone, o.zoneBy, filepath.Join(s.dir, "gpuboard.yml"))
		}
		for _, reason := range o.refused {
			fmt.Fprintf(s.app.stdout, "left out: %s\n", reason)
		}
	}
	_, err = fmt.Fprint(s.app.stdout, "\n", s.next())
	return err
}

// put writes a file, unless there is one.
func (s *setup) put(name, content string) error {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fail(exitError, fmt.Errorf("making a directory: %w", err), "")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		_, err = fmt.Fprintf(s.app.stdout, "kept   %s\n", path)
		return err
	}
	if err == nil {
		_, err = f.WriteString(content)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // half of it would be kept the next time
		}
	}
	if err != nil {
		return fail(exitError, fmt.Errorf("writing a file: %w", err), "")
	}
	_, err = fmt.Fprintf(s.app.stdout, "wrote  %s\n", path)
	return err
}

func sorted[T any](m map[string]T) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// files is every file of a side, by name.
func (s *setup) files() (map[string]string, error) {
	files := map[string]string{"gpuboard.yml": s.app.sampleConfig(s.side, s.settings(), s.hosts())}
	adapt := map[string]func(string) string{"systemd": s.unit}
	units := []string{"gpuboard-node.service", "gpuboard-collect.service", "gpuboard-collect.timer"}
	config := filepath.Join(s.dir, "gpuboard.yml")
	if s.side == sideWeb {
		units = []string{"gpuboard-watch.service", "gpuboard-generate.service", "gpuboard-generate.timer", "gpuboard-receive.service", "gpuboard-serve.service"}
		adapt["sshd"] = func(text string) string {
			return strings.NewReplacer("/srv/gpuboard", s.dir, "web.example", s.host).Replace(text)
		}
		adapt["nginx"] = func(text string) string {
			return strings.NewReplacer("HOST_NAME", s.host, "SITE_DIR", filepath.Join(s.dir, "site"), "/srv/gpuboard", s.dir).Replace(text)
		}
		files[s.comments()] = sampleComments
		files["setup/cron"] = "# The web host: one generation a minute, silent when all is well. Add it with\n" +
			"#   (crontab -l; cat " + s.dir + "/setup/cron) | crontab -\n" +
			"* * * * * " + s.exe + " generate --config " + config + "\n"
	} else {
		service, err := s.consulService()
		if err != nil {
			return nil, err
		}
		files["setup/consul/gpuboard.json"] = service
		files["setup/cron"] = "# A GPU node: start the loop when it is not running. Add it with\n" +
			"#   (crontab -l; cat " + s.dir + "/setup/cron) | crontab -\n" +
			"*/5 * * * * " + s.exe + " check " + s.host + " --config " + config + " >/dev/null\n"
	}
	for _, folder := range sorted(adapt) {
		entries, err := fs.ReadDir(deploy.Files(), folder)
		if err != nil {
			return nil, fmt.Errorf("reading what is built in: %w", err)
		}
		for _, entry := range entries {
			if folder == "systemd" && !slices.Contains(units, entry.Name()) {
				continue
			}
			text, err := fs.ReadFile(deploy.Files(), path.Join(folder, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("reading what is built in: %w", err)
			}
			files[path.Join("setup", folder, entry.Name())] = adapt[folder](string(text))
		}
	}
	return files, nil
}

// hosts is the part of the configuration that another board's list makes, "" for none.
func (s *setup) hosts() string {
	if s.older == nil {
		return ""
	}
	return s.older.config(filepath.Base(s.from))
}

// settings are what this site has decided: the paths below the directory.
func (s *setup) settings() map[string]string {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	if s.side == sideWeb {
		set := map[string]string{"data": at("data"), "site": at("site"), "state": at("state")}
		if s.comments() != usualComments {
			set["comments"] = at(s.comments())
		}
		// Said, so that times in the bookings mean the same wherever they are read.
		if zone := config.MachineZone().String(); zone != "Local" {
			set["timezone"] = zone
		}
		if s.older != nil && s.older.listen != "" {
			set["listen"] = s.older.listen
		}
		if s.older != nil && s.older.zone != "" {
			set["booking.timezone"] = s.older.zone
		}
		return set
	}
	set := map[string]string{"host": s.host, "spool": at("spool"), "identity": at("id_ed25519"), "known_hosts": at("known_hosts")}
	if s.to != "" {
		set["to"] = s.to
	}
	return set
}

// usualComments is where bookings lie when nothing else is said.
const usualComments = "data/comments.json"

// comments is where the bookings lie. Whoever books must be able to write the
// directory, and sshd wants everything above a node's drop to be root's: where
// root sets up a web host for another account, they get a directory of their own,
// unless there are bookings already.
func (s *setup) comments() string {
	if _, err := os.Lstat(filepath.Join(s.dir, usualComments)); err == nil || !s.root {
		return usualComments
	}
	return "bookings/comments.json"
}

// unit fills in a systemd unit: the program, its configuration, who runs it,
// and where it may write.
func (s *setup) unit(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "ReadWritePaths="), strings.HasPrefix(line, "StateDirectoryMode="),
			strings.HasPrefix(line, "# Bookings made in the browser"):
			continue
		case strings.HasPrefix(line, "StateDirectory="):
			line = "ReadWritePaths=" + s.dir + "\n"
		case strings.HasPrefix(line, "User="):
			line = "User=" + s.user + "\n"
		case strings.HasPrefix(line, "Group="):
			line = "Group=" + s.group + "\n"
		case line == "ProtectHome=yes\n" && slices.ContainsFunc([]string{s.dir, s.exe}, atHome):
			line = "ProtectHome=read-only\n"
		}
		b.WriteString(strings.NewReplacer("/usr/bin/gpuboard", s.exe, "/etc/gpuboard/gpuboard.yml", filepath.Join(s.dir, "gpuboard.yml"),
			"/var/lib/gpuboard", s.dir).Replace(line))
	}
	return b.String()
}

// atHome reports whether a path lies where ProtectHome hides it.
func atHome(path string) bool {
	return slices.ContainsFunc([]string{"/home/", "/root/", "/run/user/"}, func(home string) bool { return strings.HasPrefix(path+"/", home) })
}

// consulService is the service file for a node that does not register itself.
func (s *setup) consulService() (string, error) {
	text, err := fs.ReadFile(deploy.Files(), "consul/gpuboard.json")
	if err != nil {
		return "", fmt.Errorf("reading what is built in: %w", err)
	}
	var file struct {
		Service map[string]any `json:"service"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("reading what is built in: %w", err)
	}
	delete(file.Service, "tags") // somebody else's
	file.Service["meta"] = map[string]string{"host": s.host}
	filled, err := json.MarshalIndent(file, "", "  ")
	return string(filled) + "\n", err
}

const sampleComments = `// Who has reserved which GPU, until when. Change it with any editor, or with
// "gpuboard book". Comments like this one are allowed, and so is a comma behind
// the last element. For instance, by the index of the GPU:
//
//   "gpu01": {
//     "0": { "name": "ada", "date": "2026-12-01 18:00", "comment": "training run 7" },
//     "*": { "name": "admins", "kind": "maintenance", "from": "2027-01-11 09:00", "date": "2027-01-11 17:00" },
//   },
//   "gpu02": [ { "name": "grace", "date": "2026-11-30" }, {}, {} ]   // a list: GPU 0, GPU 1, …
{
}
`

// next is what to type after this.
func (s *setup) next() string {
	config := " --config " + filepath.Join(s.dir, "gpuboard.yml")
	at := func(name string) string { return filepath.Join(s.dir, name) }
	var b strings.Builder
	b.WriteString("Next:\n")
	step := func(why string, commands ...string) {
		fmt.Fprintf(&b, "  # %s\n", why)
		for _, c := range commands {
			fmt.Fprintf(&b, "  %s\n", c)
		}
	}
	if s.side == sideNode {
		server, port := "WEBHOST", ""
		if target, err := publisher.ParseTarget(s.to); err == nil && target.Host != "" {
			server = target.Host
			if target.Port != 0 {
				port = fmt.Sprintf("-p %d ", target.Port)
			}
		}
		if s.to == "" {
			step("say where to push: set to: in", at("gpuboard.yml"))
		}
		step("a key for this node; its public half goes to the web host", "ssh-keygen -q -t ed25519 -N '' -C "+s.host+" -f "+at("id_ed25519"))
		step("the web host's key; compare it with what the web host itself says", "ssh-keyscan "+port+server+" >> "+at("known_hosts"))
		s.own(&b, "spool", "id_ed25519")
		step("what is in force, and whether it works", s.exe+" doctor node"+config)
		step("from now on: by cron, or with the unit in "+at("setup/systemd"), "(crontab -l; cat "+at("setup/cron")+") | crontab -")
		return b.String()
	}
	bookings := s.comments()
	if bookings != usualComments { // else all of data/ would go with it
		bookings = path.Dir(bookings)
	}
	s.own(&b, bookings, "site", "state")
	step("the first, empty site", s.exe+" generate -v"+config)
	step("a door for the nodes: with root, "+at("setup/sshd/gpuboard.conf")+" says how; without, put each node's public key into "+at("state/keys")+" as HOST.pub, and",
		s.exe+" receive --listen :2222"+config)
	step("a web server: "+at("setup/nginx")+", or the built-in one", s.exe+" serve --listen :8080"+config)
	step("what is in force, and whether it works", s.exe+" doctor web"+config)
	step("from now on: by cron, or with the units in "+at("setup/systemd"), "(crontab -l; cat "+at("setup/cron")+") | crontab -")
	return b.String()
}

// own says how the directories become those of the account that units run as.
func (s *setup) own(b *strings.Builder, names ...string) {
	if !s.root {
		return
	}
	for i, name := range names {
		names[i] = filepath.Join(s.dir, name)
	}
	fmt.Fprintf(b, "  # the account that runs it, unless root shall\n  useradd -r -d %s -s /usr/sbin/nologin gpuboard && chown -R gpuboard:gpuboard %s\n", s.dir, strings.Join(names, " "))
}
