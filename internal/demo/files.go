package demo

import (
	"fmt"
	"strings"
	"time"
)

// Comments returns the comments.json at a time, as people write it: a booking of every
// kind, and one mistake. Its times move by whole days after the start, so that a later
// visitor sees the same picture.
func (f *Fleet) Comments(now time.Time) []byte {
	day := f.start
	if now.After(day) {
		day = day.Add(now.Sub(day) / (24 * time.Hour) * (24 * time.Hour))
	}
	day = day.Truncate(time.Hour)
	// Full hours in UTC, as people type them.
	in := func(hours int) string {
		return day.Add(time.Duration(hours) * time.Hour).Format("2006-01-02 15:04Z")
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`// Who has which GPU, until when. "date" is the end; "from" is the beginning.`)
	line(`{`)
	line(`  "atlas": {`)
	line(`    "0": {"name": "mira", "date": "%s", "comment": "camera ready"},`, in(54))
	line(`    "1": {"name": "mira", "date": "%s", "comment": "camera ready"},`, in(54))
	line(`    "2": {"name": "mira", "date": "%s", "comment": "camera ready"},`, in(54))
	line(`    "3": {"name": "eva", "from": "%s", "date": "%s", "comment": ""}, // jun, please ask me first`, in(-12), in(49))
	line(`    /* after the deadline */`)
	line(`    "4": [`)
	line(`      {"name": "eva", "from": "%s", "date": "%s", "comment": "sweep"},`, in(31), in(79))
	line(`      {"name": "ada", "from": "%s", "date": "%s", "comment": "ablation"},`, in(96), in(144))
	line(`    ],`)
	line(`  },`)
	line(`  "boreas": {`)
	line(`    "*": {"kind": "maintenance", "name": "ops", "from": "%s", "date": "%s", "comment": "new power supply"},`, in(-2), in(34))
	line(`  },`)
	line(`  "ceres": {`)
	line(`    "%s": {"name": "lea", "from": "%s", "date": "%s", "comment": "course, one slice is enough"},`, f.machine("ceres").gpus[2].mig[1].uuid, in(-5), in(28))
	line(`  },`)
	line(`  "dione": {`)
	line(`    "0": {"name": "Tomas B.", "comment": "until it has *converged*, see [the log](https://wiki.example.org/run-12)"}, // no end`)
	line(`    "1": {"name": "Tomas B.", "comment": "until it has converged"},`)
	line(`    "7": {"name": "lea", "from": "%s", "date": "%s", "comment": "course, done"},`, in(-60), in(-20))
	line(`  },`)
	line(`  "europa": {`)
	line(`    "3": {"name": "ada", "from": "%s", "date": "%s", "comment": "demo for the visitors"},`, in(-13), in(30))
	line(`  },`)
	line(`  "gaia": {`)
	line(`    "1": {"name": "jun", "date": "tomorow", "comment": "small things"},`)
	line(`  },`)
	line(`}`)
	return []byte(b.String())
}

// Aliases returns the aliases.csv of the lab.
func (f *Fleet) Aliases() []byte {
	return []byte("# other names, and at the end the one that is shown\nTomas B.,tbrandt,tomas\nEva K.,ekoenig,eva\n@vision: mira, eva, jun\n@language: tomas, noor, sam\n@robotics: ada, kai, lea\n")
}

// Notice returns the notice.md of the lab.
func (f *Fleet) Notice() []byte {
	return []byte("**Power supply** of boreas is being replaced; it is off until further notice. This lab and everybody in it is made up.\n")
}

// HostNotes returns the Markdown of hosts/<h>.md by host name.
func (f *Fleet) HostNotes() map[string][]byte {
	return map[string][]byte{
		"atlas": []byte("GPUs 0 to 3 are for **deadlines**. Book them in [comments.json](../../bookings/).\n\n- local scratch is wiped on Sundays\n- no desktop sessions\n"),
		"gaia":  []byte("Somebody may be working at the screen: look before you reboot.\n"),
	}
}
