package machine_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/doctor"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sshtest"
)

// webBed is a web host with one node's news and one generation.
func webBed(t *testing.T) *bed {
	b := newBed(t)
	for _, dir := range []string{"data/drop", "site", "state"} {
		b.must(os.MkdirAll(b.path(dir), 0o755))
	}
	b.write("data/comments.json", `{"gpu01": [{"name": "ada", "date": "2030-01-01"}]}`)
	b.write("data/aliases.csv", "adal,ada\n")
	b.deliver("gpu01", "gpu01")
	b.do(b.generate()...)
	b.look()
	return b
}

// look has doctor look at this bed.
func (b *bed) look() {
	b.args = []string{"web", "--data", b.path("data"), "--site", b.path("site"), "--state", b.path("state"),
		"--timezone", "UTC"}
}

// again is a copy of a bed, which costs less than a new one.
func (b *bed) again(t *testing.T) *bed {
	t.Helper()
	c := &bed{t: t, dir: t.TempDir(), env: map[string]string{"USER": "tester", "PATH": b.env["PATH"]}, now: time.Now}
	c.env["HOME"] = c.dir
	c.must(os.CopyFS(c.dir, os.DirFS(b.dir)))
	c.look()
	return c
}

// deliver puts news of a host into a drop.
func (b *bed) deliver(host, drop string) {
	b.t.Helper()
	b.do("collect", "--host", host, "--spool", b.path("spool-"+host), "--nvidia-smi", b.path("nvidia-smi"))
	b.must(os.MkdirAll(b.path("data", "drop", drop), 0o755))
	b.write("data/drop/"+drop+"/latest.json.gz", string(mustRead(b, "spool-"+host+"/latest.json.gz")))
}

func (b *bed) generate(flags ...string) []string {
	return append(
		[]string{"generate", "--data", b.path("data"), "--site", b.path("site"), "--state", b.path("state"),
			"--timezone", "UTC"}, flags...)
}

// serve serves the site, and lets a test change the answers.
func (b *bed) serve(change func(w http.ResponseWriter, r *http.Request) (done bool)) {
	kinds := map[string]string{".ics": "text/calendar", ".txt": "text/plain", ".json": "application/json",
		".html": "text/html"}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kinds[filepath.Ext(r.URL.Path)])
		if !change(w, r) {
			_, _ = w.Write(mustRead(b, "site"+r.URL.Path))
		}
	}))
	b.t.Cleanup(web.Close)
	b.with("--base-url", web.URL)
}

func TestDoctorNamesWhatIsWrongWithAWebHost(t *testing.T) {
	well := webBed(t)
	well.again(t).wantWell()
	for _, test := range []struct {
		name, code, words string
		root              bool
		spoil             func(b *bed)
	}{
		{name: "no data", code: "data:missing", words: "mkdir -p",
			spoil: func(b *bed) { b.with("--data", b.path("none")) }},
		{name: "data is a file", code: "data:not-a-directory", words: "ls -ld",
			spoil: func(b *bed) { b.with("--data", b.path("data/comments.json")) }},
		{name: "data open to all", code: "data:open", words: "chmod o-w",
			spoil: func(b *bed) { b.must(os.Chmod(b.path("data"), 0o777)) }},
		{name: "no site", code: "site:missing", words: "gpuboard generate",
			spoil: func(b *bed) { b.with("--site", b.path("none")) }},
		{name: "no state", code: "state:missing", words: "gpuboard generate",
			spoil: func(b *bed) { b.with("--state", b.path("none")) }},
		{name: "data served", code: "paths:served", words: "set data:", spoil: func(b *bed) {
			b.must(os.Rename(b.path("data"), b.path("site/data")))
			b.must(os.Symlink(b.path("site/data"), b.path("data")))
		}},
		{name: "keys served", code: "paths:served", words: "set keys:",
			spoil: func(b *bed) { b.env["GPUBOARD_KEYS"] = b.path("site/keys") }},
		{name: "bookings mounted by themselves", code: "paths:mount", words: "mount the directory", root: true,
			spoil: func(b *bed) {
				// From the same file system, as into a container.
				if err := syscall.Mount(b.path("data/comments.json"), b.path("data/comments.json"), "", syscall.MS_BIND,
					""); err != nil {
					need.Skip(b.t, "nothing can be mounted here: "+err.Error())
				}
				b.t.Cleanup(func() { _ = syscall.Unmount(b.path("data/comments.json"), syscall.MNT_DETACH) })
			}},
		{name: "comments.json", code: "booking:syntax", words: "comments.json:1:",
			spoil: func(b *bed) { b.write("data/comments.json", "{]") }},
		{name: "an alias of two", code: "booking:alias", words: "aliases.csv",
			spoil: func(b *bed) { b.write("data/aliases.csv", "a,b\na,c\n") }},
		{name: "a template", code: "templates:parse", words: "banner.html", spoil: func(b *bed) {
			b.write("own/base.html", "<p>")
			b.with("--templates", b.path("own"))
		}},
		{name: "no templates", code: "templates:missing", words: "none",
			spoil: func(b *bed) { b.with("--templates", b.path("none")) }},
		{name: "old history", code: "history:damaged", words: "gpuboard generate",
			spoil: func(b *bed) { b.write("state/history.db", "not a database, and long enough to be one") }},
		{name: "generator off", code: "site:old", words: "crontab",
			spoil: func(b *bed) { b.now = func() time.Time { return time.Now().Add(time.Hour) } }},
		{name: "never generated", code: "site:never", words: "gpuboard generate",
			spoil: func(b *bed) { b.must(os.Remove(b.path("site/health.json"))) }},
		{name: "silent node", code: "drop:old", words: "1h0m",
			spoil: func(b *bed) { b.now = func() time.Time { return time.Now().Add(time.Hour) } }},
		{name: "node ahead", code: "clock:ahead", words: "ahead",
			spoil: func(b *bed) { b.now = func() time.Time { return time.Now().Add(-time.Hour) } }},
		{name: "garbage", code: "bad:gzip", words: "gpu01",
			spoil: func(b *bed) { b.write("data/drop/gpu01/latest.json.gz", "garbage") }},
		{name: "another's news", code: "bad:foreign", words: "gpu07",
			spoil: func(b *bed) { b.deliver("gpu07", "gpu02") }},
		{name: "drop open to all", code: "drop:open", words: "chmod o-w",
			spoil: func(b *bed) { b.must(os.Chmod(b.path("data/drop/gpu01"), 0o777)) }},
		{name: "drop is a link", code: "drop:symlink", words: "mkdir", spoil: func(b *bed) {
			b.must(os.Rename(b.path("data/drop"), b.path("elsewhere")))
			b.must(os.Symlink(b.path("elsewhere"), b.path("data/drop")))
		}},
		{name: "no Consul", code: "discovery:unreachable", words: "CONSUL_HTTP_ADDR", spoil: func(b *bed) {
			b.t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
			b.with("--consul-enabled")
		}},
		{name: "no web server", code: "web:unreachable", words: "curl",
			spoil: func(b *bed) { b.with("--base-url", "http://127.0.0.1:1/gpu") }},
		{name: "another site", code: "web:different", words: "cache", spoil: func(b *bed) {
			b.serve(
				func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "welcome to nginx"); return true })
		}},
		{name: "no such page", code: "web:status", words: "error log", spoil: func(b *bed) {
			b.serve(func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true })
		}},
		{name: "calendar as bytes", code: "web:type", words: "text/calendar", spoil: func(b *bed) {
			b.serve(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, ".ics") {
					w.Header().Set("Content-Type", "application/octet-stream")
				}
				return false
			})
		}},
		{name: "an old .gz", code: "web:gzip", words: "gzip_static", spoil: func(b *bed) {
			b.serve(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Accept-Encoding") != "gzip" {
					return false
				}
				var old bytes.Buffer
				z := gzip.NewWriter(&old)
				fmt.Fprint(z, "yesterday's")
				_ = z.Close()
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(old.Bytes())
				return true
			})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root {
				need.Root(t)
			}
			b := well.again(t)
			test.spoil(b)
			b.wantNamed(test.code, test.words)
		})
	}
}

// mount puts another file system below the bed.
func (b *bed) mount(name, options string) {
	b.t.Helper()
	if err := syscall.Mount("none", b.path(name), "tmpfs", 0, options); err != nil {
		need.Skip(b.t, "no file system can be mounted here: "+err.Error())
	}
	b.t.Cleanup(func() { _ = syscall.Unmount(b.path(name), syscall.MNT_DETACH) })
}

func TestDoctorFindsAServedSiteWell(t *testing.T) {
	b := webBed(t)
	b.serve(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			return false
		}
		compressed, err := os.ReadFile(b.path("site" + r.URL.Path + ".gz"))
		if err != nil {
			return false // too short for one
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressed)
		return true
	})
	b.wantWell()
	e, _ := b.examine()
	if n := strings.Count(listed(e, doctor.OK), "web:ok"); n != 8 {
		t.Errorf("%d answers were compared, want 4 pages plain and packed:\n%s", n, listed(e, doctor.OK))
	}
}

// TestDoctorAgreesWithSSHD spoils each thing that sshd asks of a chroot, sees
// the node refused, and the cause named on the web host.
func TestDoctorAgreesWithSSHD(t *testing.T) {
	need.Root(t)
	for _, test := range []struct {
		name, code, words, node string
		spoil                   func(drop string) error
	}{
		{"group-writable drop", "drop:chroot-mode", "chmod go-w", "ssh:no-sftp",
			func(drop string) error { return os.Chmod(drop, 0o775) }},
		{"group-writable parent", "drop:chroot-mode", "mode 0775", "ssh:no-sftp",
			func(drop string) error { return os.Chmod(filepath.Dir(drop), 0o775) }},
		{"drop of www-data", "drop:chroot-owner", "chown root", "ssh:no-sftp",
			func(drop string) error { return os.Chown(drop, 33, 33) }},
		{"parent of www-data", "drop:chroot-owner", "uid 33", "ssh:no-sftp",
			func(drop string) error { return os.Chown(filepath.Dir(drop), 33, 33) }},
		{"no in", "drop:no-in", "install -d", "remote:directory",
			func(drop string) error { return os.Remove(filepath.Join(drop, "in")) }},
		// The test logs in as root, whom these do not stop.
		{"in of root", "drop:in-owner", "chown n-gpu01", "",
			func(drop string) error { return os.Chown(filepath.Join(drop, "in"), 0, 0) }},
		{"in open to all", "drop:in-mode", "mode 0777", "",
			func(drop string) error { return os.Chmod(filepath.Join(drop, "in"), 0o777) }},
		{"in read-only", "drop:in-mode", "cannot write", "",
			func(drop string) error { return os.Chmod(filepath.Join(drop, "in"), 0o550) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Not below /tmp: everything above a chroot must be root's alone.
			root, err := os.MkdirTemp("/srv", "gpbt-doctor-")
			if err != nil {
				need.Skip(t, err.Error())
			}
			t.Cleanup(func() { os.RemoveAll(root) })
			drop := filepath.Join(root, "data", "drop", "gpu01")
			if err := os.MkdirAll(filepath.Join(drop, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{root, filepath.Join(root, "data")} {
				if err := os.Chmod(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			// The test logs in as root; on a real host this is the node's account.
			if err := os.Chown(filepath.Join(drop, "in"), 33, 33); err != nil {
				t.Fatal(err)
			}
			node, s := nodeBed(t,
				sshtest.Options{Command: sshtest.LockedDown, Dir: "/", Config: "ChrootDirectory " + drop + "\n"})
			node.with("--to", fmt.Sprintf("sftp://%s@%s/in", s.User, s.Addr))
			node.wantWell()
			web := webBed(t)
			web.with("--data", filepath.Join(root, "data"))
			if e, _ := web.examine(); strings.Contains(listed(e, doctor.Bad), "chroot") ||
				strings.Contains(listed(e, doctor.Bad), "drop:no-in") {
				t.Fatalf("before anything is broken:\n%s", listed(e, doctor.Bad))
			}
			if err := test.spoil(drop); err != nil {
				t.Fatal(err)
			}
			if test.node != "" {
				node.wantNamed(test.node, "on the server")
			}
			web.wantNamed(test.code, test.words)
		})
	}
}

func TestDoctorAndConsul(t *testing.T) {
	agent := consultest.Start(t, consultest.Options{})
	t.Setenv("CONSUL_HTTP_ADDR", agent.Address)
	web := webBed(t)
	web.with("--consul-enabled")
	web.env["CONSUL_HTTP_ADDR"] = agent.Address
	web.wantNamed("discovery:empty", "gpuboard register")

	node := newBed(t)
	smi := []string{"--host", "gpu01", "--spool", node.path("spool"), "--nvidia-smi", node.path("nvidia-smi")}
	node.do(append([]string{"collect"}, smi...)...)
	node.args = append([]string{"node", "--register"}, smi...)
	node.wantNamed("register:missing", "gpuboard register")
	node.do(append([]string{"register"}, smi...)...)
	node.wantNamed("register:critical", "gpuboard check gpu01") // nothing was pushed yet
	if e, _ := web.examine(); !strings.Contains(listed(e, doctor.OK),
		"discovery:ok: Consul answers; the board has 1 host") {
		t.Errorf("found\n%s", listed(e, doctor.Bad))
	}
}

func TestDoctorMeasuresDrops(t *testing.T) {
	well := webBed(t)
	if e, _ := well.examine(); !strings.Contains(listed(e, doctor.OK), "drop:ok: 1 file in 1 drop, 0 MiB") {
		t.Errorf("found\n%s", listed(e, doctor.OK))
	}
	stray := func(b *bed, n int, size int64) {
		for i := range n {
			name := fmt.Sprintf("data/drop/gpu01/x%d", i)
			b.write(name, "")
			b.must(os.Truncate(b.path(name), size))
		}
	}
	b := well.again(t)
	stray(b, 400, 10)
	b.wantNamed("drop:full", "generate -v")
	b = well.again(t)
	stray(b, 80, 1<<20)
	b.wantNamed("drop:full", "chmod 2770")
	b = well.again(t)
	stray(b, 17, snapshot.MaxFileBytes+1)
	b.wantNamed("drop:unswept", "generate -v")
	if n, err := filepath.Glob(b.path("data/drop/gpu01/x*")); err != nil || len(n) != 17 {
		t.Errorf("doctor removed files: %d are left", len(n))
	}
	b = well.again(t)
	for i := range 51 {
		b.must(os.MkdirAll(b.path(fmt.Sprintf("data/drop/n%02d/in", i)), 0o755))
	}
	if e, _ := b.examine(); !strings.Contains(listed(e, doctor.Note), "drop:sshd: 51 nodes push through sshd") ||
		!strings.Contains(listed(e, doctor.Note), "each: 117 MiB") {
		t.Errorf("found\n%s", listed(e, doctor.Note))
	}
}

// TestDoctorSeesTheLimitOfDrops: whether a node behind sshd could fill the disk.
func TestDoctorSeesTheLimitOfDrops(t *testing.T) {
	need.Root(t)
	web := webBed(t)
	in := web.path("data/drop/gpu01/in")
	web.must(os.Mkdir(in, 0o755))
	web.must(os.Rename(web.path("data/drop/gpu01/latest.json.gz"), filepath.Join(in, "latest.json.gz")))
	e, _ := web.examine()
	notes := listed(e, doctor.Note)
	if !strings.Contains(notes, "drop:unlimited: 1 of 1 nodes could fill") ||
		!strings.Contains(notes, "sh limit-drops.sh "+in) {
		t.Errorf("found\n%s", notes)
	}
	if err := syscall.Mount("none", in, "tmpfs", 0, "size=1m,nr_inodes=100"); err != nil {
		need.Skip(t, "no file system can be mounted here: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(in, syscall.MNT_DETACH) })
	e, _ = web.examine()
	if strings.Contains(listed(e, doctor.Note), "drop:unlimited") ||
		!strings.Contains(listed(e, doctor.OK), "drop:ok: what nodes write cannot fill") {
		t.Errorf("with a file system of its own, found\n%s", listed(e, doctor.Note))
	}
}

// TestDoctorWritesWhereTheSiteIsCopiedTo: a key that may not write is found before a copy fails.
func TestDoctorWritesWhereTheSiteIsCopiedTo(t *testing.T) {
	store := s3test.Start(t, "gpus")
	b := webBed(t)
	b.serve(func(http.ResponseWriter, *http.Request) bool { return false })
	b.with("--publish-to", "s3://gpus/lab")
	b.wantWell()
	if left := store.Names(); len(left) > 0 {
		t.Errorf("the bucket has %q", left)
	}
	store.Fault(func(int, *http.Request) int { return http.StatusForbidden })
	b.wantNamed("store:refused", "AWS_ACCESS_KEY_ID")
}
