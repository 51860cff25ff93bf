package setup

import (
	"fmt"
	"os"
	"path"
	"strings"

	"gpuboard/internal/shell"
	"gpuboard/publisher"
)

// next is what to type after this, in the order in which it works.
func (in *installation) next() string {
	var b strings.Builder
	b.WriteString("Next:\n")
	step := func(why string, commands ...string) {
		fmt.Fprintf(&b, "  # %s\n  %s\n", why, strings.Join(commands, "\n  "))
	}
	giveAway := func(names ...string) {
		if in.root {
			commands := []string{fmt.Sprintf("id %s >/dev/null 2>&1 || useradd -r -d %s -s /usr/sbin/nologin %[1]s",
				in.User, in.Dir)}
			if in.inMemory() { // its directory has to be made again at every start of the machine
				const installed = "/etc/tmpfiles.d/gpuboard-site.conf"
				commands = append(commands, "cp "+in.path(siteTmpfiles)+" "+installed,
					"systemd-tmpfiles --create "+installed)
			}
			if site := in.settings["site"]; in.Side == Web && !in.inMemory() && site != in.path("site") {
				commands = append(commands, "mkdir -p "+shell.Quote(site))
			}
			step("the account that runs it, and its files",
				append(commands, fmt.Sprintf("chown -R %s:%s %s", in.User, in.Group, strings.Join(names, " ")))...)
		}
	}
	if in.Side == Node {
		in.nextOnNode(step, giveAway)
		if in.byPackage() {
			step("from now on", "systemctl enable --now gpuboard-node")
			step("test the settings", in.run("doctor node"))
			return b.String()
		}
	} else {
		in.nextOnWebHost(step, giveAway)
	}
	step("from now on: by cron, or with the units in "+in.path("setup/systemd"), in.addCrontab())
	if in.Side == Node {
		step("and start it now", in.run("check "+in.Host))
	} else {
		in.nextForMembers(step)
	}
	step("test the settings", in.run("doctor "+in.Side))
	return b.String()
}

func (in *installation) nextOnNode(step func(string, ...string), own func(...string)) {
	server, port := "WEBHOST", ""
	if target, err := publisher.ParseTarget(in.settings["to"]); err == nil && target.Host != "" {
		server = target.Host
		if target.Port != 0 {
			port = fmt.Sprintf("-p %d ", target.Port)
		}
	}
	if in.settings["to"] == "" {
		step("where to push: set to: in", in.path(configFile))
	}
	key := in.settings["identity"]
	step("a key for this node; its public half goes to the web host",
		"ssh-keygen -q -t ed25519 -N '' -C "+in.Host+" -f "+key)
	step("the web host's key; compare it with what the web host itself says",
		"ssh-keyscan "+port+server+" >> "+in.settings["known_hosts"])
	if in.byPackage() { // its unit makes the spool
		step("the account that runs it", fmt.Sprintf("chown %s: %s", in.User, key))
	} else {
		own(in.settings["spool"], key)
	}
}

// byPackage reports whether the units of a package read this configuration.
func (in *installation) byPackage() bool { return in.root && in.Packaged && in.Dir == "/etc/gpuboard" }

func (in *installation) nextOnWebHost(step func(string, ...string), own func(...string)) {
	names := []string{in.path("state"), in.settings["site"]}
	switch c := in.comments(); c {
	case "":
	case usualComments: // without all of data/
		names = append(names, in.path(c))
	default:
		names = append(names, in.path(path.Dir(c)))
	}
	own(names...)
	step("the first, empty site", in.run("generate -v"))
	receive := []string{in.run("receive --listen :2222") + " &"}
	if in.root {
		receive = append([]string{fmt.Sprintf("chown %s: %s", in.User, in.path("data/drop"))}, receive...)
	}
	step(
		"access for the nodes: through sshd, "+in.path("setup/sshd/gpuboard.conf")+
			" says how; or, better above 50 nodes, "+
			"put each node's public key into "+in.path("state/keys")+" as HOST.pub, and",
		receive...)
	step("a web server: "+in.path("setup/nginx")+", or the built-in one", in.run(in.serve())+" &")
}

// nextForMembers lets others book on this machine, with the command that the pages show: they may write the
// bookings, and the program finds the configuration.
func (in *installation) nextForMembers(step func(string, ...string)) {
	comments := in.comments()
	if comments == "" { // those of the older page, with its own rules
		return
	}
	file, dir := in.path(comments), in.path(path.Dir(comments))
	writable := fmt.Sprintf("chmod 2775 %s && chmod 664 %s", dir, file)
	export := "export GPUBOARD_CONFIG=" + in.path(configFile)

	if !in.root {
		commands := []string{fmt.Sprintf("chgrp GROUP %s %s && %s", dir, file, writable)}
		if home := hiddenHome(in.Dir); home != "" {
			commands = append(commands, "chmod o+x "+home)
		}
		step(
			"members: a group that you share may book with the command that the pages show; the last line is for their profiles",
			append(commands, export)...)
		return
	}
	commands := []string{writable}
	switch _, err := os.Lstat(usualConfig); {
	case in.path(configFile) == usualConfig:
	case err != nil:
		commands = append(commands,
			fmt.Sprintf("mkdir -p %s && ln -s %s %s", path.Dir(usualConfig), in.path(configFile), usualConfig))
	default: // of a node, or of another board
		commands = append(commands, export+"    # in their profiles")
	}
	step("members: who is in the group may book with the command that the pages show",
		append(commands, fmt.Sprintf("usermod -aG %s MEMBER", in.Group))...)
}

// usualConfig is the configuration that every account finds.
const usualConfig = "/etc/gpuboard/gpuboard.yml"

// run is a command of the program, as the account that has to own what it makes.
func (in *installation) run(command string) string {
	command = in.consul("env ", " ") + in.Program + " " + command + " --config " + in.path(configFile)
	if in.root {
		command = "runuser -u " + in.User + " -- " + command
	}
	return command
}

func (in *installation) addCrontab() string {
	whose := ""
	if in.root {
		whose = "-u " + in.User + " "
	}
	return fmt.Sprintf("(crontab %s-l; cat %s) | crontab %[1]s-", whose, in.path("setup/cron"))
}
