package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/s3test"
)

func mustRun(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func mustReadFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestUnitsAreAccepted has systemd read the units, and rate how much they may do.
func TestUnitsAreAccepted(t *testing.T) {
	program := need.Program(t, "systemd-analyze")
	dir := t.TempDir()
	// Only a program that is there is one that systemd accepts.
	here := filepath.Join(dir, "gpuboard")
	if err := os.WriteFile(here, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var units []string
	for _, kind := range []string{"service", "timer"} {
		more, err := filepath.Glob("deploy/systemd/*." + kind)
		if err != nil || len(more) == 0 {
			t.Fatal(more, err)
		}
		for _, unit := range more {
			copied := filepath.Join(dir, filepath.Base(unit))
			text := strings.ReplaceAll(mustReadFile(t, unit), "/usr/bin/gpuboard", here)
			if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			units = append(units, copied)
		}
	}
	if out := mustRun(t, dir, nil, program, append([]string{"verify", "--man=no"}, units...)...); out != "" {
		t.Error(out)
	}
	for _, unit := range units {
		if filepath.Ext(unit) != ".service" {
			continue
		}
		text := mustReadFile(t, unit)
		most := "20" // of 100
		if node := strings.Contains(text, "gpuboard run") || strings.Contains(text, "gpuboard collect"); node {
			most = "45"
			for _, blind := range []string{"\nPrivateDevices=", "\nProtectProc=", "\nPrivateUsers="} {
				if strings.Contains(text, blind) {
					t.Errorf("%s has%s, which hides GPUs or whose processes use them", filepath.Base(unit),
						strings.TrimSpace(blind))
				}
			}
		}
		mustRun(t, dir, nil, program, "security", "--offline=true", "--no-pager", "--threshold="+most, unit)
		for _, need := range []string{"\nUser=gpuboard\n", "\nNoNewPrivileges=yes\n", "\nProtectSystem=strict\n"} {
			if !strings.Contains(text, need) {
				t.Errorf("%s lacks %s", filepath.Base(unit), strings.TrimSpace(need))
			}
		}
	}
}

// TestDirectoriesAndAccounts has systemd make them below another root.
func TestDirectoriesAndAccounts(t *testing.T) {
	need.Root(t)
	sysusers, tmpfiles := need.Program(t, "systemd-sysusers"), need.Program(t, "systemd-tmpfiles")
	root := t.TempDir()
	for from, to := range map[string]string{
		"gpuboard.sysusers":     "usr/lib/sysusers.d/gpuboard.conf",
		"gpuboard.tmpfiles":     "usr/lib/tmpfiles.d/gpuboard.conf",
		"gpuboard-web.tmpfiles": "etc/tmpfiles.d/gpuboard-web.conf",
	} {
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(mustReadFile(t, "deploy/systemd/"+from)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As docs/install.md has it for the built-in SFTP server.
	mustRun(t, ".", nil, "sed", "-i", "/data.drop/s/root/gpuboard/g", root+"/etc/tmpfiles.d/gpuboard-web.conf")
	mustRun(t, ".", nil, sysusers, "--root="+root)
	mustRun(t, ".", nil, tmpfiles, "--root="+root, "--create")
	if passwd := mustReadFile(t,
		root+"/etc/passwd"); !regexp.MustCompile(
		`(?m)^gpuboard:.*:/var/lib/gpuboard:/usr/sbin/nologin$`).MatchString(passwd) {
		t.Errorf("passwd:\n%s", passwd)
	}
	if group := mustReadFile(t, root+"/etc/group"); !strings.Contains(group, "gpudrop:") {
		t.Errorf("group:\n%s", group)
	}
	for path, want := range map[string]string{
		"/var/lib/gpuboard": "drwxr-x---", "/var/lib/gpuboard/state/keys": "drwx------",
		"/srv/gpuboard/data/drop": "drwxr-xr-x", "/run/gpuboard/site": "drwxr-xr-x",
		"/srv/gpuboard/bookings": "dgrwxrwxr-x",
	} {
		if info, err := os.Stat(root + path); err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v, want %s", path, info.Mode(), err, want)
		}
	}
	var drop, data, site syscall.Stat_t
	for path, s := range map[string]*syscall.Stat_t{"/srv/gpuboard/data/drop": &drop, "/srv/gpuboard/data": &data,
		"/run/gpuboard/site": &site} {
		if err := syscall.Stat(root+path, s); err != nil {
			t.Fatal(err)
		}
	}
	if drop.Uid != site.Uid || drop.Uid == data.Uid || data.Uid != 0 {
		t.Errorf("owners: drop %d, data %d, site %d", drop.Uid, data.Uid, site.Uid)
	}
}

// TestRelease builds a release twice, in two places, and installs, upgrades and
// removes its deb below a root of its own.
func TestRelease(t *testing.T) {
	t.Parallel()
	need.Root(t)
	dpkg := need.Program(t, "dpkg")
	need.Program(t, "systemd-sysusers")
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("GPUBOARD_CACHE")
	if cache == "" {
		cache = filepath.Join(here, ".cache")
	}
	if found, _ := filepath.Glob(cache + "/nfpm-*"); len(found) == 0 && !need.All() {
		t.Skip("nfpm is not built yet: deploy/package/nfpm.sh does that, in a minute or two")
	}
	env := []string{"VERSION=1.2.3", "SOURCE_DATE_EPOCH=1795000000", "GPUBOARD_CACHE=" + cache}
	first, second := filepath.Join(t.TempDir(), "dist"), t.TempDir()
	mustRun(t, here, append(env, "DIST="+first), "deploy/package/build.sh", "linux/amd64")

	other := filepath.Join(t.TempDir(), "elsewhere")
	files := mustRun(t, here, nil, "git", "ls-files", "-co", "--exclude-standard")
	for name := range strings.Lines(files) {
		name = strings.TrimSpace(name)
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(name, "docs/") && filepath.Ext(name) == ".png" {
			continue // deleted, and not committed yet; or a picture
		}
		to := filepath.Join(other, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(mustReadFile(t, name)), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	// Another place, and somebody else's habits.
	elsewhere := append(slices.Clone(env), "DIST="+second, "PACKAGES=deb", "GOFLAGS=-tags=netgo -gcflags=all=-N",
		"GOAMD64=v3", "TZ=Pacific/Auckland", "LC_ALL=C.UTF-8")
	if long() {
		elsewhere = append(elsewhere, "GOCACHE="+t.TempDir()) // nothing that was compiled there either; this takes minutes
	}
	mustRun(t, other, elsewhere, "/bin/sh", "-c", "umask 077; exec deploy/package/build.sh linux/amd64")
	// The next version, with another configuration file.
	next := t.TempDir()
	config := filepath.Join(other, "deploy/package/gpuboard.yml")
	if err := os.WriteFile(config, []byte(mustReadFile(t, config)+"# Of 1.2.4.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustRun(t, other, append(env, "VERSION=1.2.4", "DIST="+next), "deploy/package/build.sh", "linux/amd64")
	sums, again := mustReadFile(t, first+"/SHA256SUMS"), mustReadFile(t, second+"/SHA256SUMS")
	sums = regexp.MustCompile(`(?m)^.*\.rpm\n`).ReplaceAllString(sums, "") // once is enough of it
	if sums != again || strings.Count(sums, "\n") != 3 || !strings.Contains(sums, " linux-amd64/gpuboard.cdx.json\n") {
		t.Errorf("built twice:\n%sand\n%s", sums, again)
	}
	mustRun(t, second, nil, "sha256sum", "-c", "--ignore-missing", first+"/SHA256SUMS")
	if program, err := os.ReadFile(first + "/linux-amd64/gpuboard"); err != nil ||
		bytes.Contains(program, []byte(here+"/")) {
		t.Errorf("the program holds the path of where it was built, %v", err)
	}

	t.Run("deb", func(t *testing.T) { installs(t, dpkg, first, next) })
	t.Run("rpm", func(t *testing.T) {
		rpm := need.Program(t, "rpm")
		list := mustRun(t, first, nil, rpm, "-qp", "--nosignature", "--qf", "[%{FILENAMES} %{FILEFLAGS}\n]",
			"gpuboard-1.2.3-1.x86_64.rpm")
		for _, want := range []string{"/usr/bin/gpuboard 0", "/etc/gpuboard/gpuboard.yml 17",
			"/usr/share/man/man1/gpuboard-run.1.gz", "/usr/share/zsh/site-functions/_gpuboard",
			"/usr/share/doc/gpuboard/gpuboard.cdx.json 0"} {
			if !strings.Contains(list, want) { // 17: config, noreplace
				t.Errorf("the rpm lacks %q:\n%s", want, list)
			}
		}
	})
	t.Run("container", func(t *testing.T) { container(t, first) })
	t.Run("systemd", func(t *testing.T) { onAMachine(t, first, next) })
}

// installs walks through the life of a deb on a machine with nothing but procps.
func installs(t *testing.T, dpkg, dist, next string) {
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	status := "Package: procps\nStatus: install ok installed\nMaintainer: nobody <nobody@example.org>\nArchitecture: amd64\nVersion: 1\nDescription: stands for the real one\n"
	if err := os.WriteFile(root+"/var/lib/dpkg/status", []byte(status), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		return mustRun(t, dist, nil, dpkg,
			append(
				[]string{"--root=" + root, "--force-script-chrootless", "--force-architecture",
					"--log=" + root + "/log"}, args...)...)
	}
	version := func() string { return mustRun(t, root, []string{"HOME=" + root}, root+"/usr/bin/gpuboard", "version") }

	do("--install", "gpuboard_1.2.3_amd64.deb")
	if v := version(); v != "gpuboard 1.2.3\n" {
		t.Errorf("installed: %s", v)
	}
	if !strings.Contains(mustReadFile(t, root+"/etc/passwd"), "gpuboard:") {
		t.Error("there is no account")
	}
	for _, path := range []string{"/usr/share/man/man1/gpuboard.1.gz",
		"/usr/share/bash-completion/completions/gpuboard", "/usr/share/zsh/vendor-completions/_gpuboard",
		"/usr/share/fish/vendor_completions.d/gpuboard.fish", "/usr/lib/systemd/system/gpuboard-node.service",
		"/var/lib/gpuboard", "/usr/share/doc/gpuboard/gpuboard.cdx.json",
		"/usr/share/doc/gpuboard/docs/webservers.md", "/usr/share/doc/gpuboard/deploy/nginx/path.conf",
		"/usr/share/doc/gpuboard/deploy/sshd/limit-drops.sh",
		"/usr/share/doc/gpuboard/deploy/consul/acl-generator.hcl",
		"/usr/share/doc/gpuboard/deploy/ansible/tasks/web.yml",
		"/usr/share/doc/gpuboard/deploy/pages/gitlab.yml"} {
		if _, err := os.Stat(root + path); err != nil {
			t.Error(err)
		}
	}
	if enabled, _ := filepath.Glob(root + "/etc/systemd/system/*/*"); len(enabled) > 0 {
		t.Errorf("enabled without being asked: %v", enabled)
	}
	// Its configuration is understood by the program that it comes with.
	c := exec.Command(root+"/usr/bin/gpuboard", "doctor", "web", "--config", root+"/etc/gpuboard/gpuboard.yml",
		"--json")
	if out, _ := c.Output(); c.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), `"config:ok"`) {
		t.Errorf("doctor with the packaged configuration: exit %d\n%s", c.ProcessState.ExitCode(), out)
	}

	config := root + "/etc/gpuboard/gpuboard.yml"
	if err := os.WriteFile(config, []byte("title: Ours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	do("--force-confold", "--install", next+"/gpuboard_1.2.4_amd64.deb")
	if v := version(); v != "gpuboard 1.2.4\n" {
		t.Errorf("upgraded: %s", v)
	}
	if got := mustReadFile(t, config); got != "title: Ours\n" {
		t.Errorf("after the upgrade the configuration is\n%s", got)
	}
	if s := do("--status", "gpuboard"); !strings.Contains(s, "Version: 1.2.4") {
		t.Errorf("after the upgrade:\n%s", s)
	}

	if err := os.WriteFile(root+"/var/lib/gpuboard/kept", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	do("--remove", "gpuboard")
	if _, err := os.Stat(root + "/usr/bin/gpuboard"); err == nil {
		t.Error("removed, and still there")
	}
	if said := do("--purge",
		"gpuboard"); !regexp.MustCompile(
		`private keys:.* /var/lib/gpuboard\n.*rm -r.* /var/lib/gpuboard;`).MatchString(said) {
		t.Errorf("the purge does not say what it keeps:\n%s", said)
	}
	for path, want := range map[string]bool{config: false, root + "/var/lib/gpuboard/kept": true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("after the purge, %s there: %v", path, err == nil)
		}
	}
	if left := mustRun(t, root, nil, "find", ".", "-path", "./usr/*", "-type", "f"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// TestPagesRecipes runs what the recipes for GitHub Pages and GitLab Pages type, each run in a clone of its own with
// nothing but what the recipe keeps in its cache.
func TestPagesRecipes(t *testing.T) {
	need.Time(t, "it runs the program")
	for _, name := range []string{"git", "curl"} {
		need.Program(t, name)
	}
	program := builtProgram(t)
	s3test.Start(t, "lab-gpu")
	releases := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(program))))
	defer releases.Close()
	node := t.TempDir()
	smi := filepath.Join(node, "nvidia-smi")
	capture := mustReadFile(t, "collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err := os.WriteFile(smi, []byte("#!/bin/sh\ncat <<'END'\n"+capture+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	push := func(host string) {
		t.Helper()
		spool := filepath.Join(node, "spool-"+host)
		mustRun(t, node, nil, program, "collect", "--host", host, "--spool", spool, "--nvidia-smi", smi)
		mustRun(t, node, nil, program, "publish", "--host", host, "--spool", spool, "--to", "s3://lab-gpu/drops/"+host)
	}
	push("gpu01")
	for _, recipe := range []struct {
		file, script, cache, published string
		masked                         bool
	}{
		{"github.yml", "$.jobs.board.steps[*].run", "$.jobs.board.steps[1].with.path",
			"$.jobs.board.steps[5].with.path", true},
		{"gitlab.yml", "$.pages.script[*]", "$.pages.cache.paths[*]", "$.pages.artifacts.paths[*]", false},
	} {
		t.Run(recipe.file, func(t *testing.T) {
			text := mustReadFile(t, "deploy/pages/"+recipe.file)
			for _, word := range []string{"BUCKET_NAME", "PROGRAM_URL"} {
				if !strings.Contains(text, "#   "+word) {
					t.Errorf("nobody is told what %s is", word)
				}
			}
			text = strings.NewReplacer("BUCKET_NAME", "lab-gpu", "PROGRAM_URL",
				releases.URL+"/"+filepath.Base(program)).Replace(text)
			at := func(path string) (values []string) {
				t.Helper()
				where, err := yaml.PathString(path)
				if err != nil {
					t.Fatal(err)
				}
				var value any
				if err := where.Read(strings.NewReader(text), &value); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if list, ok := value.([]any); ok {
					for _, one := range list {
						values = append(values, fmt.Sprint(one))
					}
					return values
				}
				return strings.Fields(fmt.Sprint(value))
			}
			script := at(recipe.script)
			if len(script) != 3 {
				t.Fatalf("the recipe types %q", script)
			}
			origin, work := t.TempDir(), ""
			git := func(args ...string) {
				t.Helper()
				mustRun(t, origin, []string{"HOME=" + node}, "git",
					append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "safe.directory=*"},
						args...)...)
			}
			git("init", "-q")
			for run, comments := range []string{"{}", `{"gpu01": {"3": {"name": "eva", "date": "2099-01-01 12:00"}}}`} {
				if err := os.WriteFile(filepath.Join(origin, "comments.json"), []byte(comments), 0o644); err != nil {
					t.Fatal(err)
				}
				git("add", "comments.json")
				git("commit", "-q", "-m", "book")
				clone := filepath.Join(t.TempDir(), "clone")
				git("clone", "-q", origin, clone)
				for _, kept := range at(recipe.cache) {
					if run > 0 {
						if err := os.Rename(filepath.Join(work, kept), filepath.Join(clone, kept)); err != nil {
							t.Fatal(err)
						}
					}
				}
				work = clone
				for _, line := range script {
					mustRun(t, work, []string{"HOME=" + node}, "bash", "-e", "-c", line)
				}
				published := filepath.Join(append([]string{work}, at(recipe.published)...)...)
				var b boardJSON
				if err := json.Unmarshal([]byte(mustReadFile(t, published+"/api/v1/board.json")), &b); err != nil {
					t.Fatal(err)
				}
				if len(b.Hosts) != 1 || b.Hosts[0].State != "up" || len(b.Hosts[0].GPUs) != 8 {
					t.Fatalf("run %d published %+v", run, b)
				}
				if booked := b.Hosts[0].GPUs[3].State == "booked"; booked != (run == 1) {
					t.Errorf("run %d: GPU 3 is %s", run, b.Hosts[0].GPUs[3].State)
				}
				if page := mustReadFile(t, published+"/index.html"); run == 1 &&
					strings.Contains(page, "eva") == recipe.masked {
					t.Errorf("the page is masked: %v", recipe.masked)
				}
			}
		})
	}
}
