package doctor

import (
	"os"
	"path/filepath"

	"gpuboard/internal/board"
	"gpuboard/internal/shell"
	"gpuboard/internal/spool"
	"gpuboard/sitegen"
)

// manyNodes is from how many nodes on gpuboard receive, which is one process, is better than sshd.
const manyNodes = 50

// dropLoads tells what the drops hold, and whether the nodes could fill the disk.
func (d *examination) dropLoads(all *spool.Drops, data string, hosts []string) {
	if len(hosts) == 0 {
		return
	}
	files, bytes := 0, int64(0)
	byNodes, open := 0, []string{} // what nodes' accounts write to; those of them without a limit
	for _, host := range hosts {
		drop := filepath.Join(data, "drop", host)
		in := filepath.Join(drop, spool.InnerName)
		if info, err := os.Lstat(in); err == nil && info.IsDir() {
			if byNodes++; !limited(in, data) {
				open = append(open, in)
			}
		}
		l, err := all.Usage(host, d.Node.Now())
		if err != nil {
			continue // said as drop:unreadable
		}
		files += l.Files
		bytes += l.Bytes
		fix := d.generate(" -v") +
			"    (removes what does not belong there, if this user may: chmod 2770 " + shell.Quote(in) + ")"
		if p := sitegen.Overfull(host, l); p.Code != "" {
			d.bad(p.Code, fix, "%s", p.Message)
		} else if l.Stray > spool.MaxIgnoredStray {
			d.bad("drop:unswept", fix, "the drop of %s contains %d files that do not belong there", host, l.Stray)
		}
	}
	d.ok("drop:ok", "%s in %s, %d MiB", board.Number(files, "file"), board.Number(len(hosts), "drop"), bytes>>20)
	if byNodes > manyNodes {
		d.note("drop:sshd", "gpuboard receive --help    (docs/scale.md says what it saves)",
			"%d nodes push through sshd, which takes two processes and 2.3 MiB for each: %.0f MiB",
			byNodes, 2.3*float64(byNodes))
	}
	disk, _ := fileSystemOf(data)
	switch {
	case len(open) > 0:
		d.note("drop:unlimited",
			"sh limit-drops.sh "+shell.Quote(open[0])+
				" 128M 700    (deploy/sshd has it), or gpuboard receive instead of sshd",
			"%d of %d nodes could fill the file system of %s with its %d MiB and %d inodes: sshd does not limit what they write to %s, and no limit of that directory can be seen",
			len(open), byNodes, data, disk.size>>20, disk.inodes, open[0])
	case byNodes > 0:
		d.ok("drop:ok", "what nodes write cannot fill the file system of %s", data)
	}
}

// limited reports whether a directory is a file system of its own or has a project quota,
// which its size shows. Quotas of single accounts cannot be seen.
func limited(dir, data string) bool {
	own, _ := fileSystemOf(dir)
	all, _ := fileSystemOf(data)
	return own.size != all.size || own.inodes != all.inodes
}
