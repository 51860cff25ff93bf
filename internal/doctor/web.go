package doctor

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/pull"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/watch"
	"gpuboard/publisher"
	"gpuboard/sitegen"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// maxFetch bounds what is read of a web server's answer.
const maxFetch = 64 << 20

// web looks at everything that the web host needs.
func (d *examination) web(ctx context.Context) {
	data, site, state := d.Config.String("data"), d.Config.String("site"), d.Config.String("state")
	if d.directory("data", data, "mkdir -p "+shell.Quote(filepath.Join(data, "drop")), false) {
		d.room("the data directory", data)
		d.board(ctx, data)
	}
	if d.directory("site", site, d.generate(""), true) {
		d.room("the site", site)
		d.generation(site)
		d.siteMedium(site)
	}
	if d.directory("state", state, d.generate(""), true) {
		d.room("the state directory", state)
		d.remembered(state)
	}
	d.private(site)
	d.overlay()
	d.hooks()
	d.older(data)
	d.servers(ctx)
	d.published(ctx, site)
	d.copies(ctx)
	d.pulled(ctx)
}

// pulled reads each node once that is read over SSH.
func (d *examination) pulled(ctx context.Context) {
	nodes, _ := d.Config.Pulled()
	options := watch.PullOptions(d.Config, d.Node.Version, d.Node.Now, d.Node.SSHConfig)
	snaps, errs := make([]*snapshot.Snapshot, len(nodes)), make([]error, len(nodes))
	var workers errgroup.Group
	workers.SetLimit(16)
	for i, n := range nodes {
		workers.Go(func() error {
			snaps[i], errs[i] = pull.Once(ctx, pull.Target{Host: n.Host, SSH: n.Login}, options)
			return nil
		})
	}
	_ = workers.Wait() // they return none
	for i, n := range nodes {
		if errs[i] != nil {
			p := pull.Problem(n.Host, errs[i])
			d.bad(p.Code, failure.Explain(errs[i]).Hint, "%s: %v", n.Host, errs[i])
			continue
		}
		d.ok("pull:ok", "%s was read over SSH as %s: %s, %s", n.Host, n.Login, board.Number(len(snaps[i].GPUs), "GPU"),
			board.Number(len(snaps[i].Errors), "problem"))
	}
}

// directory looks at one of the three directories. This user writes to own ones.
func (d *examination) directory(code, dir, fix string, own bool) bool {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.bad(code+":missing", fix, "there is no directory %s", dir)
		return false
	case err != nil:
		d.bad(code+":unreadable", "namei -l "+shell.Quote(dir), "%v", err)
		return false
	case !info.IsDir():
		d.bad(code+":not-a-directory", "ls -ld "+shell.Quote(dir), "%s is not a directory", dir)
		return false
	}
	if _, err := os.ReadDir(dir); err != nil {
		d.bad(code+":unreadable", "namei -l "+shell.Quote(dir), "%v", err)
		return false
	}
	if own && !d.probe(code, dir, dir) {
		return true
	}
	if info.Mode().Perm()&0o002 != 0 {
		d.bad(code+":open", "chmod o-w "+shell.Quote(dir), "everybody may write %s", dir)
		return true
	}
	d.ok(code+":ok", "%s exists and can be used", dir)
	return true
}

// private refuses what must not be served below what is.
func (d *examination) private(site string) {
	root, err := filepath.EvalSymlinks(site)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return // there is no site, which is said already
	}
	well := true
	for _, name := range []string{"data", "state", "keys", "host_key", "comments", "password"} {
		path := d.Config.String(name)
		if path == "" || strings.Contains(path, "://") {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if path, err = filepath.Abs(path); err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			well = false
			fix := "move it, and set " + name + ": to the new path"
			if d.Config.InFile(name) {
				fix = "move it, and " + d.Config.Edit(name, "PATH")
			}
			d.bad("paths:served", fix, "%s (%s) is inside the site, so everybody can read it", name, path)
		}
	}
	if well {
		d.ok("paths:ok", "nothing private is inside the site")
	}
}

// copies writes a test file where the site is copied to.
func (d *examination) copies(ctx context.Context) {
	to := d.Config.String("publish_to")
	if to == "" {
		return
	}
	target, err := publisher.ParseTarget(to)
	if err == nil {
		err = d.access(ctx, target, func() {})
	}
	if err != nil {
		d.addError(fmt.Errorf("publish_to: %w", err), publisher.CodeLost, "")
		return
	}
	d.ok("push:ok", "a test file was written to %s, where the site is copied to, and removed", to)
}

// board reports the problems that a generation would show now, of what comes from nodes, people and Consul.
func (d *examination) board(ctx context.Context, data string) {
	if _, err := d.Config.LocalComments(); err != nil {
		d.bad("config:comments", "edit "+shell.Quote(d.Config.Path), "%v", err)
		return
	}
	b, err := watch.Board(ctx, d.Config, d.Node.Version, d.Node.Now)
	if err != nil {
		b = &board.Board{}
	}
	d.drops(data, b)
	if err != nil {
		d.addError(err, "site:failed", d.generate(" -v"))
		return
	}

	bad := map[string]bool{} // areas and files with a problem
	for _, p := range b.Problems {
		if setUp(p) {
			area, _, _ := strings.Cut(p.Code, ":")
			bad[area], bad[p.File] = true, true
			message := p.Message
			if where := p.Where(); where != "" {
				message = where + ": " + message
			}
			d.bad(p.Code, d.fixOnBoard(area, p), "%s", message)
		}
	}
	path, names := d.Config.CommentsPath(), d.Config.AliasesPath()
	if config.IsFile(names) && !bad["aliases.csv"] {
		d.ok("aliases:ok", "%s has no errors", names)
	}
	if d.isMounted(path) {
		d.bad("paths:mount", "mount the directory "+shell.Quote(filepath.Dir(path))+" instead of the file",
			"%s is a mount point, so it cannot be replaced in one step", path)
	}

	switch {
	case bad["booking"]:
	case !config.IsFile(path):
		d.note("booking:none", "gpuboard init web DIR writes an example", "there is no %s, and no booking", path)
	default:
		d.ok("booking:ok", "%s has no errors; the board has %s", path, board.Number(len(b.Bookings), "booking"))
	}

	switch {
	case !d.Config.AsksConsul():
		fix := d.setting("consul.enabled", "true", d.generate(""), "generate")
		if origin := d.Config.Origin("hosts_from"); origin != "default" {
			fix = "add consul to hosts_from: " + origin + " has it"
		}
		d.note("discovery:off", fix,
			"Consul is not used; the hosts are those in the configuration, and those that send data")
	case !bad["discovery"]:
		d.ok("discovery:ok", "Consul answers; the board has %s", board.Number(len(b.Hosts), "host"))
	}
}

// setUp reports whether a problem on a board is one of the set-up, and not one of a GPU.
func setUp(p snapshot.Problem) bool {
	area, _, _ := strings.Cut(p.Code, ":")
	return slices.Contains([]string{"aliases", "bad", "booking", "clock", "discovery", "host", "note", "state"}, area)
}

// fixOnBoard is what to type about a problem on the board.
func (d *examination) fixOnBoard(area string, p snapshot.Problem) string {
	path, data := d.Config.CommentsPath(), d.Config.String("data")
	if p.Code == "booking:emptied" {
		file := d.Config.Bookings(path)
		held, _ := file.Read() // that it cannot be read is another problem
		if lost, ok := errors.AsType[*booking.RestorableError](file.Intact(held)); ok {
			return lost.Hint
		}
	}
	if p.File == "aliases.csv" {
		path = d.Config.AliasesPath()
	}
	drop := shell.Quote(filepath.Join(data, "drop", p.Host))
	on := "    (on " + p.Host + ")"
	fixes := map[string]string{
		"aliases:unreadable": "ls -l " + shell.Quote(path),
		"booking:unreadable": "ls -l " + shell.Quote(path),
		"booking:vanished":   d.own("bookings --log", "data", "comments", "aliases", "timezone"),
		"booking:zone": d.own("bookings --keep times", "data", "state", "comments", "timezone",
			"booking.timezone"),
		"bad:unreadable": "chgrp -R gpuboard " + drop + " && usermod -aG gpuboard " + d.me(),
		snapshot.BadForeign: "gpuboard doctor node    " +
			"(on the node that the message names: it needs a key, and a to:, of its own)",
		"bad":                   "gpuboard doctor node" + on,
		"host":                  "gpuboard doctor node" + on,
		"clock":                 "timedatectl set-ntp true" + on,
		"discovery:unreachable": "consul members; env | grep ^CONSUL_",
		"discovery": "gpuboard register on the nodes; " +
			"deploy/consul/acl-generator.hcl has the policy that the token needs",
		"note":  "ls -la " + shell.Quote(data),
		"state": "ls -la " + shell.Quote(d.Config.String("state")),
	}
	return cmp.Or(fixes[p.Code], fixes[area], "edit "+shell.Quote(path))
}

// generation tells how long ago the site was made.
func (d *examination) generation(site string) {
	text, err := atomicfile.Read(filepath.Join(site, "health.json"), maxFetch)
	if err != nil {
		d.bad("site:never", d.generate(""), "the site was never generated: %v", err)
		return
	}
	var health struct {
		GeneratedAt  time.Time `json:"generated_at"`
		Due          time.Time `json:"next_generation_expected_at"`
		LateAt       time.Time `json:"late_at"`
		ProblemCount int       `json:"problem_count"`
	}
	if err := json.Unmarshal(text, &health); err != nil || health.GeneratedAt.IsZero() {
		d.bad("site:damaged", d.generate(""), "%s is not gpuboard's: %v", filepath.Join(site, "health.json"), err)
		return
	}
	made := board.Board{GeneratedAt: health.GeneratedAt}
	made.SetTimes(health.Due, health.LateAt)
	age := made.Age(d.Node.Now())
	if made.Late(d.Node.Now()) {
		d.bad("site:old", d.generate(" -v")+"; crontab -l; systemctl status gpuboard-generate.timer gpuboard-watch",
			"the last generation is %v old", age.Round(time.Second))
		return
	}
	d.ok("site:fresh", "the last generation is %v old, with %s", max(age, 0).Round(time.Second),
		board.Number(health.ProblemCount, "problem"))
}

// siteMedium notes a large site on a disk: in memory it is written several times as fast.
func (d *examination) siteMedium(site string) {
	const many, inMemory = 2000, "/run/gpuboard/site"
	files := 0
	_ = filepath.WalkDir(site, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files++
		}
		return nil
	})
	if files <= many || watch.InMemory(site) {
		return
	}
	d.note("site:on-disk",
		fmt.Sprintf(
			"echo 'd %s 0755 %s' >/etc/tmpfiles.d/gpuboard-site.conf && systemd-tmpfiles --create    (and set site: to %[1]s, here and in the web server)", inMemory, d.me()),
		"%d files of the site lie on a disk; in memory a generation writes them several times as fast", files)
}

// remembered opens the history, unless a generator is at work on it.
func (d *examination) remembered(state string) {
	path := filepath.Join(state, "generate.lock")
	inUse, err := atomicfile.Held(path)
	switch {
	case err != nil:
		d.bad("state:lock", "ls -l "+shell.Quote(path), "the generator's lock cannot be acquired: %v", err)
		return
	case inUse:
		d.note("state:in-use", "", "a generator is running at this moment; the history was not tested")
		return
	case d.Config.Bool("no_history"):
		d.note("history:off", "", "no history is kept")
		return
	}
	db := filepath.Join(state, "history.db")
	info, err := os.Stat(db)
	if errors.Is(err, fs.ErrNotExist) {
		d.note("history:none", "", "there is no history yet; the first generation creates it")
		return
	}
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() { // to read a FIFO would wait for ever
		d.bad("history:unreadable", "ls -l "+shell.Quote(db), "%s is a %s, so there is no history", db,
			atomicfile.Kind(info.Mode()))
		return
	}
	f, err := os.OpenFile(db, os.O_RDWR, 0)
	if err != nil {
		d.bad("history:unreadable", d.takeOver(db), "%v", err)
		return
	}
	defer f.Close()
	// To open it as the generator does would set a damaged one aside.
	head := make([]byte, 16)
	if _, err := io.ReadFull(f, head); err != nil || string(head) != "SQLite format 3\x00" {
		d.bad("history:damaged", d.generate("")+"    (sets it aside and starts a new one)",
			"%s is not a history database", db)
		return
	}
	d.ok("history:ok", "%s can be opened", db)
}

// overlay renders an empty board with the site's own look.
func (d *examination) overlay() {
	dir := d.Config.String("templates")
	if dir == "" {
		return
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		d.bad("templates:missing", "gpuboard doctor web --templates DIR", "there is no directory %s", dir)
		return
	}
	empty, _ := board.Merge(board.Input{Now: d.Node.Now().UTC()})
	in := render.Input{Board: empty,
		Site: render.Site{Languages: d.Config.Languages(), Zone: d.Config.Zone(), Version: d.Node.Version}}
	if err := page.Files(in, sitegen.OwnLook(dir)); err != nil {
		d.bad("templates:parse", "edit "+shell.Quote(dir), "%v", err)
		return
	}
	d.ok("templates:ok", "the site's own look in %s is valid", dir)
}

// published compares what a visitor gets with what was written.
func (d *examination) published(ctx context.Context, site string) {
	base := d.Config.String("base_url")
	if base == "" {
		d.note("web:unknown", d.setting("base_url", "URL", d.own("doctor web", config.WebKeys()...), "generate"),
			"there is no base_url, so the web server was not tested")
		return
	}
	base = strings.TrimRight(base, "/") + "/"
	clock := false
	for _, page := range []struct{ name, kind string }{
		{"index.html", "text/html"}, {"metrics.txt", "text/plain"}, {"bookings.ics", "text/calendar"},
		{"api/v1/board.json", "application/json"},
	} {
		want, err := atomicfile.Read(filepath.Join(site, page.name), maxFetch)
		if err != nil {
			continue // there is no generation, which is said already
		}
		for _, encoding := range []string{"identity", "gzip"} {
			sent := d.Node.Now()
			resp, body, err := fetch(ctx, base+page.name, encoding)
			if err != nil {
				d.bad("web:unreachable", "curl -I "+shell.Quote(base+page.name), "%v", err)
				return
			}
			if !clock {
				clock = true
				d.clockBy(resp.Header.Get("Date"), sent, d.Node.Now())
			}
			d.compare(base+page.name, page.kind, resp, body, want, filepath.Join(site, page.name))
		}
	}
}

func (d *examination) compare(url, kind string, resp *http.Response, body, want []byte, file string) {
	got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	packed := resp.Header.Get("Content-Encoding")
	what := url
	if packed != "" {
		what += ", " + packed + ","
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		d.note("web:password", "", "%s needs a password; it was not tested further", url)
	case resp.StatusCode != http.StatusOK:
		d.bad("web:status", "curl -I "+shell.Quote(url)+"    (and read the web server's error log)", "%s answers %s",
			what, resp.Status)
	case got != kind:
		d.bad("web:type", "deploy/ has configurations for nginx, Apache, Caddy and lighttpd",
			"%s is sent as %q and should be %s", what, got, kind)
	case !bytes.Equal(body, want):
		if now, err := atomicfile.Read(file, maxFetch); err == nil && bytes.Equal(body, now) {
			d.ok("web:ok", "%s is as generated", what)
			return // a generation came in between
		}
		if packed != "" {
			d.bad("web:gzip", d.generate("")+"    (writes the .gz again), or turn gzip_static off",
				"%s differs from %s: the web server sends an old .gz, or caches", what, file)
			return
		}
		d.bad("web:different", "point the web server at this site, and let nothing cache it", "%s differs from %s",
			what, file)
	default:
		d.ok("web:ok", "%s is as generated", what)
	}
}

// fetch asks a web server, for at most ten seconds, and returns the answer with its body, unpacked. encoding is what
// it may compress by.
func fetch(ctx context.Context, url, encoding string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s: %w", url, err)
	}
	req.Header.Set("Accept-Encoding", encoding)
	// What comes over the wire is looked at, so it is unpacked here.
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	resp, err := (&http.Client{Timeout: 10 * time.Second, Transport: transport}).Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()

	var r io.Reader = io.LimitReader(resp.Body, maxFetch)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("unpacking %s: %w", url, err)
		}
		r = io.LimitReader(unpacked, maxFetch)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", url, err)
	}
	return resp, body, nil
}
