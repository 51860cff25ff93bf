package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/shell"
	"gpuboard/internal/spool"
)

// drops looks at each node's directory: whether sshd would let the node in,
// whether the node can write, whether this user can read, and how old the news is.
func (d *examination) drops(data string, b *board.Board) {
	dir := filepath.Join(data, "drop")
	if info, err := os.Lstat(dir); err != nil {
		d.bad("drop:missing", "mkdir -p "+shell.Quote(dir), "there is no directory %s for the data of nodes", dir)
		return
	} else if info.Mode()&fs.ModeSymlink != 0 {
		d.bad("drop:symlink", "rm "+shell.Quote(dir)+" && mkdir "+shell.Quote(dir),
			"%s is a symbolic link, which is not followed", dir)
		return
	}
	all, err := spool.OpenDrops(data)
	if err != nil {
		d.bad("drop:unreadable", "namei -l "+shell.Quote(dir), "%v", err)
		return
	}
	hosts, _ := all.Hosts() // the board has its problems
	if len(hosts) == 0 {
		d.note("drop:none", "gpuboard init node DIR    (on a node)", "no node has a directory in %s", dir)
	}
	said := map[string]bool{} // what several hosts have in common, once
	for _, host := range hosts {
		before := len(d.findings)
		d.dropModes(filepath.Join(dir, host), said)
		if len(d.findings) == before {
			d.dropNews(b, host, filepath.Join(dir, host))
		}
	}
	d.dropLoads(all, data, hosts)
}

// dropModes checks what sshd asks of a chroot, where a drop is one: there is an
// "in" below it, or it is root's and nothing else has been delivered.
func (d *examination) dropModes(drop string, said map[string]bool) {
	info, err := os.Lstat(drop)
	if err != nil || !info.IsDir() {
		return // Hosts has told
	}
	in := filepath.Join(drop, spool.InnerName)
	inInfo, inErr := os.Lstat(in)
	_, sentErr := os.Lstat(filepath.Join(drop, spool.LatestName))
	byDropBox := config.IsFile(filepath.Join(d.Config.KeysDir(), filepath.Base(drop)+".pub"))
	if inErr != nil && (ownerUID(info) != 0 || sentErr == nil || byDropBox) {
		if info.Mode().Perm()&0o002 != 0 {
			d.bad("drop:open", "chmod o-w "+shell.Quote(drop), "everybody can write %s, and so send data as this node",
				drop)
		}
		return
	}
	path, err := filepath.Abs(drop)
	if err != nil {
		return
	}
	for ; ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && !said[path] {
			if uid := ownerUID(info); uid != 0 {
				said[path] = true
				d.bad("drop:chroot-owner", "chown root "+shell.Quote(path),
					"%s belongs to uid %d: sshd refuses a chroot unless it and all its parents belong to root", path,
					uid)
			}
			if mode := info.Mode().Perm(); mode&0o022 != 0 {
				said[path] = true
				fix := "chmod go-w " + shell.Quote(path)
				if info.Mode()&fs.ModeSticky != 0 { // /tmp and its like have to be so
					fix = "keep the data directory elsewhere than below " + shell.Quote(path)
				}
				d.bad("drop:chroot-mode", fix,
					"%s has mode %04o: sshd refuses a chroot if group or others can write it or a parent", path, mode)
			}
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	user := account(drop)
	makeIn := "install -d -m 2770 -o " + user + " -g gpuboard " + shell.Quote(in)
	switch {
	case inErr != nil:
		d.bad("drop:no-in", makeIn, "%s is missing, so the node cannot write", in)
	case !inInfo.IsDir():
		d.bad("drop:no-in", "rm "+shell.Quote(in)+" && "+makeIn, "%s is not a directory", in)
	case ownerUID(inInfo) == 0:
		d.bad("drop:in-owner", "chown "+user+" "+shell.Quote(in),
			"%s belongs to root, so the node's account cannot write to it", in)
	case inInfo.Mode().Perm()&0o002 != 0:
		d.bad("drop:in-mode", "chmod 2770 "+shell.Quote(in), "%s has mode %04o: everybody can write to it", in,
			inInfo.Mode().Perm())
	case inInfo.Mode().Perm()&0o300 != 0o300:
		d.bad("drop:in-mode", "chmod 2770 "+shell.Quote(in), "%s has mode %04o, so its owner cannot write to it", in,
			inInfo.Mode().Perm())
	default:
		if f, err := os.Open(in); err != nil {
			d.bad("drop:unreadable",
				"chgrp gpuboard "+shell.Quote(in)+" && chmod 2770 "+shell.Quote(in)+" && usermod -aG gpuboard "+d.me(),
				"this user cannot read %s: %v", in, err)
		} else {
			f.Close()
		}
	}
}

// account is the account whose home is a drop, or else that which deploy/sshd/gpuboard.conf makes for it.
func account(drop string) string {
	passwd, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(line, ":"); len(f) > 6 && f[5] == drop {
			return f[0]
		}
	}
	return "n-" + filepath.Base(drop)
}

// fixNever is what to type for a node that has never sent anything.
func (d *examination) fixNever(host, drop string) string {
	own, bySSHD := d.Config.KeysDir(), "/etc/ssh/gpudrop"
	switch {
	case config.IsFile(filepath.Join(own, host+".pub")), config.IsFile(filepath.Join(bySSHD, account(drop))):
	case config.IsDir(filepath.Join(drop, spool.InnerName)):
		return "install -m 644 " + host + ".pub " + shell.Quote(filepath.Join(bySSHD, account(drop))) +
			"    (the node's public key)"
	case config.IsDir(own):
		return "cp " + host + ".pub " + shell.Quote(own) + "    (the node's public key)"
	}
	return "gpuboard doctor node    (on " + host + ")"
}

// dropNews tells how old the news of a host is, as the board sees it.
func (d *examination) dropNews(b *board.Board, host, drop string) {
	i := slices.IndexFunc(b.Hosts, func(h board.Host) bool { return h.Name == host })
	if i < 0 || slices.ContainsFunc(b.Hosts[i].Problems, setUp) {
		return
	}
	h := &b.Hosts[i]
	age := max(b.GeneratedAt.Sub(h.SnapshotAt), 0).Round(time.Second)
	switch {
	case h.SnapshotAt.IsZero():
		d.bad("drop:never", d.fixNever(host, drop), "%s has never sent anything", host)
	case h.State == board.Stale, h.State == board.Down:
		d.bad("drop:old", "gpuboard doctor node    (on "+host+")", "the data of %s is %v old", host, age)
	default:
		d.ok("drop:ok", "the data of %s is %v old", host, age)
	}
}
