package doctor

import (
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
)

// A job is a command of this program that cron or systemd runs here, with the configuration that
// doctor looks at.
type job struct {
	command string // "run --once" apart from "run"
	line    string // the command as it is written there
	by      string // "cron", its file, or the unit
}

// configuredJobs reads the crontabs, and the units that start with the machine.
func (d *examination) configuredJobs(ctx context.Context) (jobs []job) {
	path, _ := filepath.Abs(d.Config.Path)
	byDefault := !d.Config.Named || path == "/etc/gpuboard/gpuboard.yml" // a job that names no file reads this one
	jobLine := regexp.MustCompile(`(?m)^[^#\n]*?(?:[\s/=;&|]|^)` +
		`(gpuboard +(check|run --once|run|collect|generate|receive|serve)\b[^;&|>\n]*)`)
	configFlag := regexp.MustCompile(`--config[ =](\S+)`)
	configVar := regexp.MustCompile(`(?m)^(?:Environment=)?GPUBOARD_CONFIG=(\S+)`)
	add := func(by, text string) {
		for _, m := range jobLine.FindAllStringSubmatch(text, -1) {
			line := strings.TrimSpace(m[1])
			config := configFlag.FindStringSubmatch(line)
			if config == nil {
				config = configVar.FindStringSubmatch(text)
			}
			if (config == nil && byDefault || config != nil && config[1] == path) && line != "gpuboard check kill" {
				jobs = append(jobs, job{m[2], line, by})
			}
		}
	}
	add("cron", string(d.Crontab(ctx)))
	for _, pattern := range []string{"crontab", "cron.d/*", "systemd/system/*.wants/*"} {
		names, _ := filepath.Glob(filepath.Join(d.etc, pattern))
		for _, name := range names {
			file, _ := filepath.EvalSymlinks(name)
			if timer, ok := strings.CutSuffix(file, ".timer"); ok {
				file = timer + ".service"
			}
			text, _ := atomicfile.Read(file, 1<<20) // files that this user may not read are skipped
			add(filepath.Base(name), string(text))
		}
	}
	return jobs
}

// job returns the first of these commands that cron or systemd runs.
func (d *examination) job(commands ...string) (job, bool) {
	i := slices.IndexFunc(d.jobs, func(j job) bool { return slices.Contains(commands, j.command) })
	if i < 0 {
		return job{}, false
	}
	return d.jobs[i], true
}

// servers tests the servers that cron or systemd starts here.
func (d *examination) servers(ctx context.Context) {
	for _, command := range []string{"receive", "serve"} {
		j, ok := d.job(command)
		if !ok {
			continue
		}
		listen := d.Config.String("listen")
		if command == "receive" {
			listen = d.Config.ReceiveAddress()
		}
		if m := regexp.MustCompile(`--listen[ =](\S+)`).FindStringSubmatch(j.line); m != nil {
			listen = m[1]
		}
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", listen)
		if err != nil {
			d.bad("server:down", j.line+"    (says why it ends)",
				"%s starts gpuboard %s, and nothing answers: %v", j.by, command, err)
			continue
		}
		conn.Close()
		d.ok("server:ok", "gpuboard %s answers at %s", command, listen)
	}
}
