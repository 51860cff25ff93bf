package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/node"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// node looks at everything that a GPU node needs.
func (d *examination) node(ctx context.Context) {
	host, err := d.Node.Host()
	if err != nil {
		d.bad("host:name", d.setting("host", "NAME", "gpuboard doctor node", "check", "run"), "%v", err)
	} else {
		d.ok("host:ok", "this node is called %s", host)
		d.readings(ctx, host)
	}
	d.hiddenProcesses()
	d.spool()
	if err == nil {
		// The drop first: a loop is launched when its pushes can work.
		d.loop(host, d.drop(ctx, host))
		d.registered(ctx, host)
	}
	url := d.Config.String("site_url")
	if !strings.HasPrefix(url, "http") {
		url = d.Config.String("base_url")
	}
	if url == "" {
		name := "site_url" // which doctor has no flag for
		if d.Config.Path == "" {
			name = "base_url"
		}
		d.note("clock:unknown", d.setting(name, "URL", d.own("doctor node", config.NodeKeys()...)),
			"there is no site_url to compare the clock by")
		return
	}
	sent := d.Node.Now()
	resp, _, err := fetch(ctx, url, "identity")
	if err != nil {
		d.note("clock:unknown", "", "the clock cannot be compared: %v", err)
		return
	}
	d.clockBy(resp.Header.Get("Date"), sent, d.Node.Now())
}

// otherSettings reports that the loop runs with another name or drop than was tested.
func (d *examination) otherSettings(host string, beat node.Heartbeat) {
	to := beat.Settings["to"]
	if beat.Settings == nil || beat.Host == host && to == d.Config.String("to") {
		return
	}
	fix := "gpuboard doctor node --host=" + shell.Quote(beat.Host) + d.Node.Flags(beat.Settings)
	where, why := "pushes nowhere", "which was not tested"
	if to != "" {
		where = "pushes to " + to
	}
	line := d.checkLine(host)
	switch {
	case beat.Host != host && line != "": // the node has another name now
		fix = d.kill() + "; " + line
	case d.Config.InFile("to") && strings.Contains(line, "--to"):
		fix, why = "delete --to from this line of cron: "+line, "and not as "+d.Config.Origin("to")+" says"
	case d.Config.InFile("to"):
		fix, why = d.restart(host, beat), "and not as "+d.Config.Origin("to")+" says"
	}
	d.bad("loop:other-settings", fix, "the loop is called %s and %s, %s", beat.Host, where, why)
}

// checkLine is the command by which cron keeps the loop of a host running; "" for none.
func (d *examination) checkLine(host string) string {
	for _, j := range d.jobs {
		if j.command != "check" || !slices.Contains(strings.Fields(j.line), host) {
			continue
		}
		if d.Config.Named && !strings.Contains(j.line, "--config") { // a variable of the crontab names it
			return j.line + " --config " + shell.Quote(d.Config.Path)
		}
		return j.line
	}
	return ""
}

// start is the command that starts the loop as it is to run: as cron does, or else as it ran.
func (d *examination) start(host string, beat node.Heartbeat) string {
	if strings.HasSuffix(beat.Unit, ".service") {
		return "systemctl restart " + beat.Unit
	}
	return cmp.Or(d.checkLine(host), "gpuboard check "+shell.Quote(host)+d.Node.Flags(beat.Settings))
}

// kill is the command that ends the loop.
func (d *examination) kill() string { return d.own("check kill", "spool") }

// restart ends the loop and starts it again.
func (d *examination) restart(host string, beat node.Heartbeat) string {
	if start := d.start(host, beat); strings.HasPrefix(start, "systemctl") {
		return start
	}
	return d.kill() + "; " + d.start(host, beat)
}

// readings takes one snapshot and tells what could not be read.
func (d *examination) readings(ctx context.Context, host string) {
	begun := d.Node.Now()
	snap, err := d.Node.Collector(host, false).Collect(ctx)
	if err != nil {
		return // interrupted
	}
	took := d.Node.Now().Sub(begun)
	seen := map[string]bool{}
	for _, p := range snap.Errors {
		area, _, _ := strings.Cut(p.Code, ":")
		seen[area] = true
		d.bad(p.Code, d.fixReading(p), "%s", p.Message)
	}
	if !seen["smi"] || len(snap.Tools) > 0 {
		every := cmp.Or(d.Config.Duration("every"), node.MaxAuto)
		if took > every/2 {
			d.bad("smi:slow", "nvidia-smi -pm 1    (keeps the driver loaded), or set every: to more",
				"reading this node takes %v; its interval is %v", took.Round(time.Millisecond), every)
		} else {
			d.tools(snap, took, seen["smi"])
		}
	}
	// Without a process on a GPU there was nothing to ask ps about.
	if program := d.Config.String("ps"); !seen["ps"] && !d.Installed(program) {
		d.bad("ps:missing", d.fixReading(snapshot.Problem{Code: "ps:missing"}),
			"there is no %s, so the users of GPUs are unknown", program)
	} else if !seen["ps"] {
		named := 0
		for _, p := range snap.Processes {
			if p.User != "" {
				named++
			}
		}
		d.ok("ps:ok", "ps knows the users of %d of %d GPU processes", named, len(snap.Processes))
	}
	d.engines(snap.Processes)
}

// tools tells what showed how many GPUs of each vendor; nvidia-smi does not count if it has a problem.
func (d *examination) tools(snap *snapshot.Snapshot, took time.Duration, problem bool) {
	h := board.Host{Driver: snap.DriverVersion, Tools: snap.Tools}
	for _, t := range h.ToolsOf() {
		if t.Vendor == snapshot.NVIDIA && problem {
			continue
		}
		code, n := "smi:ok", 0
		if t.Vendor != snapshot.NVIDIA {
			code = string(t.Vendor) + ":ok"
		}
		for i := range snap.GPUs {
			if snap.GPUs[i].Maker() == t.Vendor {
				n++
			}
		}
		name := strings.TrimSpace(t.Name + " " + t.Version)
		d.ok(code, "%s shows %s with driver %s, in %v", name, board.Number(n, "GPU"), t.Driver,
			took.Round(time.Millisecond))
	}
}

func (d *examination) fixReading(p snapshot.Problem) string {
	switch area, what, _ := strings.Cut(p.Code, ":"); {
	case p.Code == "amd:permission":
		return d.fixGroups()
	case p.Code == "gpu:unread":
		return "nothing: it does not count, and no program is needed for it"
	case area == "amd":
		return "amd-smi list; dmesg | grep -i amdgpu    (a stuck driver needs a reboot)"
	case p.Code == "smi:missing":
		return "install the NVIDIA driver, or name the program: " + d.program("nvidia_smi")
	case p.Code == "smi:timeout":
		return "nvidia-smi -pm 1; dmesg | grep -i xid    (a stuck driver needs a reboot)"
	case p.Code == "ps:namespace":
		return "run gpuboard on the host and not in a container, or give the container --pid=host"
	case p.Code == "ps:hidden":
		return d.fixHidden()
	case area == "ps":
		return "apt-get install procps, or name the program: " + d.program("ps")
	case area == "smi" && what != "":
		return "nvidia-smi -q -x | head; dmesg | grep -i nvrm"
	}
	return ""
}

// fixGroups is the command that lets this account open the devices of AMD's driver: it joins the groups that own
// those that it may not open.
func (d *examination) fixGroups() string {
	var groups []string
	devices, _ := filepath.Glob(filepath.Join(d.dev, "dri/renderD*"))
	for _, device := range append(devices, filepath.Join(d.dev, "kfd")) {
		info, err := os.Stat(device)
		if err != nil || d.opens(device) {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Gid != 0 { // nobody joins root's
			id := strconv.FormatUint(uint64(stat.Gid), 10)
			if group, err := user.LookupGroupId(id); err == nil {
				id = group.Name
			}
			groups = append(groups, id)
		}
	}
	slices.Sort(groups)
	if groups = slices.Compact(groups); len(groups) == 0 {
		return "ls -l /dev/kfd /dev/dri    (a rule of udev has to give them to a group of this account)"
	}
	return "usermod -aG " + strings.Join(groups, ",") + " " + d.me() + "    (and start the loop again)"
}

// program is where the path of a program belongs.
func (d *examination) program(name string) string {
	return d.setting(name, "PATH", "", "check", "run", "run --once", "collect")
}

func (d *examination) fixHidden() string {
	return "groupadd -f procview && usermod -aG procview " + d.me() +
		" && mount -o remount,hidepid=2,gid=procview /proc"
}

// hiddenProcesses finds a /proc that hides other users' processes. Everybody can read
// about process 1, which is root's, unless /proc is mounted with hidepid.
func (d *examination) hiddenProcesses() {
	if _, err := os.Stat(filepath.Join(d.proc, "self")); err != nil {
		d.note("proc:unknown", "", "there is no %s to see whether processes are hidden", d.proc)
	} else if _, err := os.ReadFile(filepath.Join(d.proc, "1", "status")); err != nil {
		d.bad("proc:hidepid", d.fixHidden(), "/proc is mounted with hidepid: "+
			"this account cannot see other users' processes, so the users of GPUs are unknown")
	} else {
		d.ok("proc:ok", "other users' processes are visible")
	}
}

// me is this user, as usermod and chown take it.
func (d *examination) me() string {
	return cmp.Or(d.Node.Getenv("USER"), strconv.Itoa(d.euid))
}

func (d *examination) spool() {
	dir := d.Config.String("spool")
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		d.note("spool:missing", d.own("collect", "host", "spool", "nvidia_smi", "nvidia_smi_timeout", "ps"),
			"the spool %s does not exist yet; collect and run create it", dir)
		return
	}
	s, err := spool.Open(dir)
	switch {
	case errors.Is(err, spool.ErrNotPrivate):
		fix := d.takeOver(dir)
		if strings.HasPrefix(fix, "chown") {
			fix = "chmod 700 " + shell.Quote(dir) + "; " + fix
		}
		d.bad("spool:not-private", fix, "%v", err)
		return
	case err != nil:
		d.bad("spool:unusable", d.setting("spool", "DIR", "gpuboard doctor node", "check", "run"), "%v", err)
		return
	}
	defer s.Close()
	if d.probe("spool", "the spool "+dir, dir) {
		d.ok("spool:ok", "the spool %s is private and can be written", dir)
	}
	d.room("the spool", dir)
}

// loop looks for the loop, or for what collect left. works means that doctor itself could push.
func (d *examination) loop(host string, works bool) {
	dir, now := d.Config.String("spool"), d.Node.Now()
	beat, beatErr := node.ReadHeartbeat(dir) // also of a loop that has ended
	start := d.start(host, beat)
	held, err := node.Running(dir)
	if err != nil {
		d.bad("loop:unknown", start, "%v", err)
		return
	}
	if held {
		name, err := cmp.Or(beat.Host, host), beatErr
		switch age := beat.Age(now); {
		case err != nil:
			d.bad("loop:no-heartbeat", d.start(name, beat), "the loop runs and has no heartbeat: %v", err)
		case beat.Hangs(now):
			d.bad("loop:hangs", d.start(name, beat),
				"the loop (pid %d) runs, and has not responded for %v", beat.PID, age.Round(time.Second))
		case beat.Version != d.Node.Version:
			d.bad("loop:old-version", d.restart(name, beat), "the loop (pid %d) is still version %s", beat.PID,
				beat.Version)
		case beat.Push.Error != "":
			reading := d.fixReading(snapshot.Problem{Code: beat.Push.Code})
			fix := cmp.Or(beat.Push.Hint, reading, "tail "+shell.Quote(filepath.Join(dir, node.LogFile)))
			retry := works && reading == "" && d.Config.String("to") == beat.Settings["to"]
			if retry { // doctor's push works now, and the loop has not tried again
				fix = d.restart(name, beat)
			}
			d.bad("loop:not-pushing", fix,
				"the loop (pid %d) runs, and %s", beat.PID, failure.Line(beat.Push.Failure(), beat.Push.Code))
		case beat.Settings["to"] == "":
			d.ok("loop:ok", "the loop (pid %d) runs (heartbeat %v ago); no drop is set", beat.PID,
				max(age, 0).Round(time.Second))
		case beat.Push.Since.IsZero():
			d.ok("loop:ok", "the loop (pid %d) has started, and its first push is in progress", beat.PID)
		default:
			d.ok("loop:ok", "the loop (pid %d) has pushed since %s, the last time %v ago", beat.PID,
				beat.Push.Since.Format(time.RFC3339), max(now.Sub(beat.Push.Worked), 0).Round(time.Second))
		}
		if err == nil {
			d.otherSettings(host, beat)
		}
		return
	}
	if starts, ok := d.job("check", "run"); ok {
		if strings.HasSuffix(starts.by, ".service") {
			start = "systemctl start " + starts.by
		}
		d.bad("loop:not-running", start, "%s starts the loop, and none runs: %s", starts.by, starts.line)
		return
	}
	collects, ok := d.job("run --once", "collect")
	if !ok {
		d.bad("loop:not-running", start,
			"no loop runs on this spool, and neither cron nor systemd starts one, or collects")
		return
	}
	data, err := atomicfile.Read(filepath.Join(dir, spool.LatestName), snapshot.MaxFileBytes)
	if err != nil {
		d.bad("loop:not-running", start, "no loop runs on this spool, and nothing was collected")
		return
	}
	bundle, err := snapshot.DecodeBundle(bytes.NewReader(data))
	if err != nil {
		d.bad("loop:not-running", start, "no loop runs on this spool, and its snapshot cannot be read: %v", err)
		return
	}
	age := now.Sub(bundle.Snapshot.CollectedAt.Time)
	if age > 15*time.Minute {
		d.bad("loop:not-running", start, "no loop runs on this spool, and the last snapshot is %v old",
			age.Round(time.Second))
		return
	}
	d.ok("loop:none", "no loop runs; %s collects, the last time %v ago", collects.by, age.Round(time.Second))
}

// drop pushes a temporary file and removes it again, and reports whether that works.
func (d *examination) drop(ctx context.Context, host string) bool {
	to := d.Config.String("to")
	if to == "" {
		d.note("publish:none", d.setting("to", "sftp://USER@WEB/", d.start(host, node.Heartbeat{}), "check", "run"),
			"no drop is set, so snapshots stay on this node")
		return false
	}
	target, err := publisher.ParseTarget(to)
	if err != nil {
		d.addError(fmt.Errorf("to from %s: %w", d.Config.Origin("to"), err), "publish:target", "")
		return false
	}
	if target.Scheme == "file" {
		dir := filepath.Join(target.Dir, "drop")
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			d.bad("local:directory", "mkdir -p "+shell.Quote(dir), "there is no directory %s", dir)
		} else if d.probe("local", dir, dir) {
			d.ok("local:ok", "%s can be written", dir)
			return true
		}
		return false
	}
	err = d.access(ctx, target, func() {
		d.ok("ssh:ok", "%s: the host key is known, the login works, and the server offers posix-rename", to)
	})
	if err != nil {
		d.addError(err, publisher.CodeLost, "")
		return false
	}
	d.ok("push:ok", "a test file was written to the drop and removed")
	return true
}

// access writes a test file to a target and removes it. connected is called once the login has succeeded.
func (d *examination) access(ctx context.Context, target publisher.Target, connected func()) error {
	return publisher.CheckAccess(ctx, publisher.Options{
		Target: target, Budget: d.Config.Duration("push_timeout"),
		Identity: d.Config.List("identity"), KnownHosts: d.Config.List("known_hosts"),
		ResolveConfig: d.Node.SSHConfig,
	}, connected)
}

// addError adds a finding for another package's error, with its own code and hint if it has them.
func (d *examination) addError(err error, code, fix string) {
	code = cmp.Or(failure.CodeOf(err), code)
	fix = cmp.Or(failure.Explain(err).Hint, fix)
	names := d.Config.List("identity")
	if errors.Is(err, fs.ErrNotExist) && code == publisher.CodeKeyUnreadable && len(names) == 1 {
		fix = "ssh-keygen -q -t ed25519 -N '' -f " + shell.Quote(names[0]) +
			"    (and bring " + names[0] + ".pub to the web host)"
	}
	if code == publisher.CodeLost && strings.Contains(err.Error(), "opening an SFTP session") {
		// The key was taken: what ends a session behind that is the server's own setting.
		code = publisher.CodeNoSFTP
		fix = "on the server: gpuboard doctor web; " +
			"a chroot and all its parents must be root's and not be writable by group or others"
	}
	d.bad(code, fix, "%v", err)
}

// registered asks Consul whether it knows this node.
func (d *examination) registered(ctx context.Context, host string) {
	if !d.Config.Bool("register.enabled") {
		d.note("register:off", d.setting("register.enabled", "true", d.start(host, node.Heartbeat{}), "check", "run"),
			"this node does not register with Consul")
		return
	}
	c, err := d.Config.NewConsul()
	if err != nil {
		d.addError(err, "consul:config", "")
		return
	}
	answer, err := c.Query(ctx)
	if err != nil {
		fix := cmp.Or(failure.Explain(err).Hint, "consul members; env | grep ^CONSUL_")
		d.bad("discovery:unreachable", fix, "Consul does not answer: %v", err)
		return
	}
	for _, p := range answer.Problems {
		d.bad(p.Code, "deploy/consul/acl-generator.hcl has the policy that the token needs", "%s", p.Message)
	}

	for _, h := range answer.Hosts {
		if h.Name != host {
			continue
		}
		if h.Check == inventory.Critical {
			d.bad("register:critical", d.start(host, node.Heartbeat{}),
				"Consul knows %s, and its check is critical: %s", host, h.CheckOutput)
		} else {
			d.ok("register:ok", "Consul knows %s (%s)", host, h.Check)
		}
		return
	}
	d.bad("register:missing", d.own("register", "host", "spool", "to", "consul.service", "nvidia_smi", "ps"),
		"Consul knows %s, and %s is not among them", board.Number(len(answer.Hosts), "host"), host)
}
