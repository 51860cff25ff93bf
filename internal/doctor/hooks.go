package doctor

import (
	"maps"
	"slices"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/legacy"
	"gpuboard/internal/notify"
	"gpuboard/internal/shell"
	"gpuboard/internal/spool"
	"gpuboard/sitegen"
)

// hooks looks at what is to hear of changes, without sending anything.
func (d *examination) hooks() {
	fix := d.own("notify --test", "state", "title", "timezone", "base_url")
	notifier, err := d.Config.Notifier()
	if err != nil {
		d.bad("notify:config", "see docs/notify.md", "%v", err)
	}
	if notifier == nil || err != nil {
		return
	}
	well := true
	for _, h := range d.Config.Hooks {
		program := h.Sendmail
		switch {
		case h.Kind == notify.Command:
			program = h.Command[0]
		case h.Kind == notify.Mail && program == "":
			program = "/usr/sbin/sendmail"
		}
		if h.Kind != notify.Webhook && h.SMTP == "" && !d.Installed(program) {
			well = false
			d.bad("notify:program", fix, "the hook %s runs %s, which is missing or not executable", h.Name, program)
		}
	}
	for _, t := range notifier.Failures() {
		well = false
		where := "the outbox"
		if t.Hook != "" {
			where = "the hook " + t.Hook
		}
		d.bad("notify:failing", fix, "%s: %v", where, t.Err)
	}
	if well {
		d.ok("notify:ok", "%s configured, and none has failed recently", board.Number(len(d.Config.Hooks), "hook"))
	}
}

// older says which hosts still run the older scripts.
func (d *examination) older(data string) {
	dir := sitegen.LegacyDir(d.Config.String("legacy"), data)
	if dir == "" {
		return
	}
	found, err := legacy.Read(dir, d.Node.Now(), d.Config.LegacyZone())
	if err != nil {
		d.bad("legacy:unreadable", "ls -ld "+shell.Quote(dir), "%v", err)
		return
	}
	drops, notThere := spool.OpenDrops(data)
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(found.Hosts)), func(name string) bool {
		moved := notThere == nil
		if moved {
			_, _, err := drops.Latest(name)
			moved = err == nil
		}
		return moved || found.Hosts[name].Snapshot == nil
	})
	switch n := len(left); {
	case n == 0:
		d.note("legacy:done", "remove legacy from the configuration, or set it to "+sitegen.NoLegacy,
			"%s has files of the older scripts, and no host needs them any more", dir)
	case n > 8:
		d.note("legacy:hosts", "see docs/migration-001.md", "%d hosts still run the older scripts, %s and others", n,
			strings.Join(left[:8], ", "))
	default:
		d.note("legacy:hosts", "see docs/migration-001.md", "still run the older scripts: %s", strings.Join(left, ", "))
	}
}
