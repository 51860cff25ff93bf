package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// drops looks at each node's directory: whether sshd would let the node in,
// whether the node can write, whether this user can read, and how old the news is.
func (d *examination) drops(data string) {
	dir := filepath.Join(data, "drop")
	if info, err := os.Lstat(dir); err != nil {
		d.bad("drop:missing", "mkdir -p "+shell.Quote(dir), "there is no directory %s for the data of nodes", dir)
		return
	} else if info.Mode()&fs.ModeSymlink != 0 {
		d.bad("drop:symlink", "rm "+shell.Quote(dir)+" && mkdir "+shell.Quote(dir), "%s is a symbolic link, which is not followed", dir)
		return
	}
	all, err := spool.OpenDrops(data)
	if err != nil {
		d.bad("drop:unreadable", "namei -l "+shell.Quote(dir), "%v", err)
		return
	}
	hosts, problems := all.Hosts()
	for _, p := range problems {
		d.bad(p.Code, "ls -la "+shell.Quote(dir), "%s", p.Message)
	}
	if len(hosts) == 0 {
		d.note("drop:none", "gpuboard init node DIR    (on a node)", "no node has a directory in %s", dir)
	}
	said := map[string]bool{} // what several hosts have in common, once
	for _, host := range hosts {
		before := len(d.findings)
		d.dropModes(filepath.Join(dir, host), said)
		if len(d.findings) == before {
			d.dropNews(all, host, filepath.Join(dir, host))
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
			d.bad("drop:open", "chmod o-w "+shell.Quote(drop), "everybody can write %s, and so send data as this node", drop)
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
				d.bad("drop:chroot-owner", "chown root "+shell.Quote(path), "%s belongs to uid %d: sshd refuses a chroot unless it and all its parents belong to root", path, uid)
			}
			if mode := info.Mode().Perm(); mode&0o022 != 0 {
				said[path] = true
				mend := "chmod go-w " + shell.Quote(path)
				if info.Mode()&fs.ModeSticky != 0 { // /tmp and its like have to be so
					mend = "keep the data directory elsewhere than below " + shell.Quote(path)
				}
				d.bad("drop:chroot-mode", mend, "%s has mode %04o: sshd refuses a chroot if group or others can write it or a parent", path, mode)
			}
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	account := d.account(drop)
	makeIn := "install -d -m 2770 -o " + account + " -g gpuboard " + shell.Quote(in)
	switch {
	case inErr != nil:
		d.bad("drop:no-in", makeIn, "%s is missing, so the node cannot write", in)
	case !inInfo.IsDir():
		d.bad("drop:no-in", "rm "+shell.Quote(in)+" && "+makeIn, "%s is not a directory", in)
	case ownerUID(inInfo) == 0:
		d.bad("drop:in-owner", "chown "+account+" "+shell.Quote(in), "%s belongs to root, so the node's account cannot write to it", in)
	case inInfo.Mode().Perm()&0o002 != 0:
		d.bad("drop:in-mode", "chmod 2770 "+shell.Quote(in), "%s has mode %04o: everybody can write to it", in, inInfo.Mode().Perm())
	case inInfo.Mode().Perm()&0o300 != 0o300:
		d.bad("drop:in-mode", "chmod 2770 "+shell.Quote(in), "%s has mode %04o, so its owner cannot write to it", in, inInfo.Mode().Perm())
	default:
		if f, err := os.Open(in); err != nil {
			d.bad("drop:unreadable", "chgrp gpuboard "+shell.Quote(in)+" && chmod 2770 "+shell.Quote(in)+" && usermod -aG gpuboard "+d.me(), "this user cannot read %s: %v", in, err)
		} else {
			f.Close()
		}
	}
}

// account is the account whose home is a drop, as deploy/sshd/gpuboard.conf makes it.
func (d *examination) account(drop string) string {
	passwd, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(line, ":"); len(f) > 6 && f[5] == drop {
			return f[0]
		}
	}
	return "n-" + filepath.Base(drop)
}

// mendNever is what to type for a node that has never sent anything.
func (d *examination) mendNever(host, drop string) string {
	own, bySSHD := d.Config.KeysDir(), "/etc/ssh/gpudrop"
	switch {
	case config.IsFile(filepath.Join(own, host+".pub")), config.IsFile(filepath.Join(bySSHD, d.account(drop))):
	case config.IsDir(filepath.Join(drop, spool.InnerName)):
		return "install -m 644 " + host + ".pub " + shell.Quote(filepath.Join(bySSHD, d.account(drop))) + "    (the node's public key)"
	case config.IsDir(own):
		return "cp " + host + ".pub " + shell.Quote(own) + "    (the node's public key)"
	}
	return "gpuboard doctor node    (on " + host + ")"
}

// arrived is when the newest file came into a drop. It is no proof of freshness, but good
// enough for advice.
func arrived(drop string) (at time.Time) {
	for _, name := range []string{spool.LatestName, filepath.Join(spool.InnerName, spool.LatestName)} {
		if info, err := os.Lstat(filepath.Join(drop, name)); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// dropNews tells how old the news of a host is, by its own clock.
func (d *examination) dropNews(all *spool.Drops, host, drop string) {
	bundle, _, err := all.Latest(host)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && (bundle == nil || bundle.Snapshot == nil):
		d.bad("drop:never", d.mendNever(host, drop), "%s has never sent anything", host)
		return
	case errors.Is(err, fs.ErrPermission):
		d.bad("drop:unreadable", "chgrp -R gpuboard "+shell.Quote(drop)+" && usermod -aG gpuboard "+d.me(), "the data of %s cannot be read: %v", host, err)
		return
	case err != nil:
		code := cmp.Or(snapshot.CodeOf(err), "bad:unreadable")
		mend := "gpuboard doctor node    (on " + host + ")"
		if code == snapshot.BadForeign {
			mend = "gpuboard doctor node    (on the node that the message names: it needs a key, and a to:, of its own)"
		}
		d.bad(code, mend, "the data of %s is not valid: %v", host, err)
		return
	}
	now := d.Node.Now()
	age := now.Sub(bundle.Snapshot.CollectedAt.Time)
	usual := max(3*time.Duration(bundle.Snapshot.IntervalSeconds)*time.Second, time.Minute)
	limit := cmp.Or(d.Config.Duration("stale_after"), usual)
	setClock := "timedatectl set-ntp true    (on " + host + ")"
	switch tolerance := d.Config.Duration("clock_tolerance"); {
	case age < -tolerance:
		d.bad("drop:clock", setClock, "the clock of %s is %s ahead", host, board.Span(-age))
	case age > limit && now.Sub(arrived(drop)) <= limit:
		d.bad("drop:clock", setClock, "the data of %s has just arrived and is %s old: its clock is behind, or it was offline until now", host, board.Span(age))
	case age > limit:
		d.bad("drop:old", "gpuboard doctor node    (on "+host+")", "the data of %s is %v old", host, age.Round(time.Second))
	default:
		d.ok("drop:ok", "the data of %s is %v old", host, max(age, 0).Round(time.Second))
	}
}
