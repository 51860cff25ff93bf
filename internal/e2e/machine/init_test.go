package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/setup"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// initialised is a directory that init filled.
func initialised(t *testing.T, side string, flags ...string) (*bed, string) {
	b := newBed(t)
	dir := b.path(side)
	if side == setup.Web { // wherever this machine would keep it
		flags = append(flags, "--site", filepath.Join(dir, "site"))
	}
	b.do(append([]string{"init", side, dir}, flags...)...)
	return b, dir
}

// sample is where init puts the bookings of a web host.
func sample(dir string) string {
	if os.Geteuid() == 0 {
		return filepath.Join(dir, "bookings/comments.json")
	}
	return filepath.Join(dir, "data/comments.json")
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var commented = regexp.MustCompile(`^( *)#([a-z0-9_]+: .*)$`)

func TestEverySettingOfTheSampleCanBeUncommented(t *testing.T) {
	seen := map[string]bool{}
	for _, side := range []string{setup.Node, setup.Web} {
		_, dir := initialised(t, side, "--host", "gpu01")
		text := readText(t, filepath.Join(dir, "gpuboard.yml"))
		before, err := loadText(t, text)
		if err != nil {
			t.Fatalf("%s, as written: %v", side, err)
		}
		head := strings.Split(text, "\n# Hosts with more")[0] + "\n"
		lines := strings.Split(head, "\n")
		all := strings.Clone(head)
		for i, line := range lines {
			m := commented.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			one := append(append(append([]string{}, lines[:i]...), m[1]+m[2]), lines[i+1:]...)
			if _, err := loadText(t, strings.Join(one, "\n")); err != nil {
				t.Errorf("%s, with %q: %v", side, strings.TrimSpace(m[2]), err)
			}
			all = strings.Replace(all, line+"\n", m[1]+m[2]+"\n", 1)
		}
		after, err := loadText(t, all)
		if err != nil {
			t.Fatalf("%s, with everything: %v", side, err)
		}
		for _, k := range config.Keys() {
			if !after.Given(k.Name) {
				continue
			}
			seen[k.Name] = true
			if got, want := after.String(k.Name), before.String(k.Name); got != want && k.Name != "spool" &&
				k.Name != "state" {
				t.Errorf("%s: the sample says that %s is %q by default, and it is %q", side, k.Name, got, want)
			}
		}
		// The examples of what is more than a line.
		if _, examples, ok := strings.Cut(text, "instead of the line above:\n"); ok {
			var lines []string
			for line := range strings.Lines(examples) {
				if !strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "#  ") {
					line = strings.TrimPrefix(line, "#")
				}
				lines = append(lines, line)
			}
			cfg, err := loadText(t, strings.Join(lines, ""))
			if err != nil || len(cfg.Hosts) != 2 || cfg.Hosts[0].GPUs != 8 || len(cfg.ShortNames) != 1 {
				t.Errorf("the examples: %v", err)
			}
		}
	}
	for _, k := range config.Keys() {
		if !seen[k.Name] {
			t.Errorf("no sample has %s", k.Name)
		}
	}
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	b, dir := initialised(t, setup.Web)
	b.write("web/gpuboard.yml", "title: Ours\n")
	b.must(os.Remove(filepath.Join(dir, "setup/cron")))
	out, _, code := b.run("init", "web", dir)
	if code != failure.ExitOK || readText(t, filepath.Join(dir, "gpuboard.yml")) != "title: Ours\n" {
		t.Errorf("exit %d: the file was overwritten", code)
	}
	if !strings.Contains(out, "kept   "+dir+"/gpuboard.yml\n") ||
		!strings.Contains(out, "wrote  "+dir+"/setup/cron\n") {
		t.Errorf("said\n%s", out)
	}
}

// TestInitsAtOnce: two administrators with one idea. Every file is written by
// one of them, whole.
func TestInitsAtOnce(t *testing.T) {
	b := newBed(t)
	outs := make([]string, 8)
	var all sync.WaitGroup
	for i := range outs {
		all.Go(func() {
			out, errs, code := b.run("init", "web", b.path("web"), "--site", b.path("web/site"))
			if code != failure.ExitOK {
				t.Errorf("exit %d\n%s", code, errs)
			}
			outs[i] = out
		})
	}
	all.Wait()
	wrote := map[string]int{}
	for _, out := range outs {
		for line := range strings.Lines(out) {
			if path, ok := strings.CutPrefix(line, "wrote  "); ok {
				wrote[strings.TrimSpace(path)]++
			}
		}
	}
	_, alone := initialised(t, setup.Web)
	n := 0
	err := filepath.WalkDir(alone, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		n++
		there := b.path("web", strings.TrimPrefix(path, alone))
		if want := strings.ReplaceAll(readText(t, path), alone, b.path("web")); readText(t, there) != want {
			t.Errorf("%s is not whole:\n%s\nwant\n%s", there, readText(t, there), want)
		}
		if wrote[there] != 1 {
			t.Errorf("%s was written %d times", there, wrote[there])
		}
		return nil
	})
	if err != nil || n != len(wrote) || n < 10 {
		t.Errorf("%d files, and %d written: %v", n, len(wrote), err)
	}
}

// TestInitFollowsNoLinks: a name that is a link is taken, wherever it leads.
func TestInitFollowsNoLinks(t *testing.T) {
	b := newBed(t)
	b.write("elsewhere", "theirs\n")
	comments := sample(b.path("web"))
	b.must(os.MkdirAll(filepath.Dir(comments), 0o755))
	b.must(os.Symlink(b.path("elsewhere"), b.path("web/gpuboard.yml")))
	b.must(os.Symlink(b.path("nowhere"), comments))
	out, errs, code := b.run("init", "web", b.path("web"), "--site", b.path("web/site"))
	if code != failure.ExitOK || strings.Count(out, "kept   ") != 2 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if readText(t, b.path("elsewhere")) != "theirs\n" {
		t.Error("it wrote through the link")
	}
	if _, err := os.Lstat(b.path("nowhere")); err == nil {
		t.Error("it made what the link leads to")
	}
}

// TestInitOnAFullDisk leaves no half of a file, which would be kept the next time.
func TestInitOnAFullDisk(t *testing.T) {
	need.Root(t)
	b := newBed(t)
	b.must(os.Mkdir(b.path("web"), 0o755))
	b.mount("web", "size=16k")
	if _, errs, code := b.run("init", "web", b.path("web"), "--site",
		b.path("web/site")); code != failure.ExitTryAgain ||
		!strings.Contains(errs, "no space left on device [disk:space]") {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	b.must(syscall.Mount("none", b.path("web"), "tmpfs", syscall.MS_REMOUNT, "size=1m"))
	b.do("init", "web", b.path("web"), "--site", b.path("web/site"))
	if text := readText(t, b.path("web/gpuboard.yml")); !strings.HasSuffix(text, "#  NVIDIA A100-SXM4-80GB: A100\n") {
		t.Errorf("the configuration ends with %q", text[max(0, len(text)-100):])
	}
}

func TestInitRefuses(t *testing.T) {
	b := newBed(t)
	b.write("file", "")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"init", "both", b.path("x")}, "no side"},
		{[]string{"init", "web", b.path("with space")}, "use a path"},
		{[]string{"init", "node", b.path("x"), "--host", "Not A Host"}, "--host NAME"},
		{[]string{"init", "node", b.path("x"), "--to", "web:/srv"}, "sftp://web/srv"},
		{[]string{"init", "web", b.path("x"), "--to", "sftp://a@b"}, "does not push"},
		{[]string{"init", "web", b.path("file")}, "directory"},
		{[]string{"init", "web"}, "init needs web|node DIR"},
	} {
		if _, errs, code := b.run(test.args...); code != failure.ExitUsage || !strings.Contains(errs, test.want) {
			t.Errorf("%v: exit %d\n%s", test.args, code, errs)
		}
	}
	if _, err := os.Stat(b.path("x")); err == nil {
		t.Error("something was made all the same")
	}
}

func TestInitFillsInThisSite(t *testing.T) {
	_, web := initialised(t, setup.Web, "--host", "gpus.example.org")
	_, node := initialised(t, setup.Node, "--host", "gpu07", "--to", "sftp://n-gpu07@gpus.example.org:2222/in")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		web + "/setup/sshd/gpuboard.conf": {web + "/data/drop/gpu01", "n-gpu01@gpus.example"},
		web + "/setup/nginx/host.conf":    {"server_name gpus.example.org;", "root " + web + "/site;"},
		web +
			"/setup/cron": {"* * * * * " + self + " generate --interval 1m --config " + web + "/gpuboard.yml\n"},
		web + "/setup/systemd/gpuboard-watch.service": {"ExecStart=" + self + " generate --watch\n",
			"ReadWritePaths=" + web + "\n", "GPUBOARD_CONFIG=" + web + "/gpuboard.yml\n"},
		node + "/gpuboard.yml": {"\nhost: gpu07\n", "\nto: sftp://n-gpu07@gpus.example.org:2222/in\n",
			"\nspool: " + node + "/spool\n"},
		node + "/setup/consul/gpuboard.json": {`"host": "gpu07"`, `"ttl": "10m"`},
		node + "/setup/cron": {self + " check gpu07 --config " + node + "/gpuboard.yml >/dev/null\n",
			"\n#   echo '* * * * * root " + self +
				" containers >/dev/null' | sudo tee /etc/cron.d/gpuboard-containers\n"},
		node + "/setup/systemd/gpuboard-collect.service": {"ExecStart=" + self + " publish\n",
			"ReadWritePaths=" + node + "\n"},
	} {
		text := readText(t, path)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", path, w, text)
			}
		}
	}
	err = filepath.WalkDir(filepath.Join(web, "setup"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			for _, left := range []string{"/srv/gpuboard", "/etc/gpuboard/gpuboard.yml", "SITE_DIR", "HOST_NAME"} {
				for line := range strings.Lines(readText(t, path)) {
					if strings.Contains(line, left) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
						t.Errorf("%s still has %s", path, left)
					}
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := readText(t, sample(web))
	if c := booking.Parse("comments.json", []byte(text), booking.Zone{Location: time.UTC},
		booking.Options{}); len(c.Bookings) != 0 || len(c.Problems) != 0 {
		t.Errorf("the sample of comments.json: %d bookings, %v", len(c.Bookings), c.Problems)
	}
	// What its comment shows is right as well.
	_, example, _ := strings.Cut(text, "//\n")
	example = strings.ReplaceAll(strings.ReplaceAll(example, "\n//", "\n"), "{\n}\n", "")
	if c := booking.Parse("comments.json", []byte("{"+strings.TrimPrefix(example, "//")+"}"),
		booking.Zone{Location: time.UTC}, booking.Options{}); len(c.Bookings) != 3 || len(c.Problems) != 0 {
		t.Errorf("its examples: %d bookings, %v", len(c.Bookings), c.Problems)
	}
}

// TestInitFilesAreAccepted asks the programs that the files are for.
func TestInitFilesAreAccepted(t *testing.T) {
	b, web := initialised(t, setup.Web, "--host", "gpus.example.org")
	node := b.path("node")
	b.do("init", "node", node, "--host", "gpu01")
	t.Run("systemd", func(t *testing.T) {
		program := need.Program(t, "systemd-analyze")
		var units []string
		for _, dir := range []string{web, node} {
			more, err := filepath.Glob(dir + "/setup/systemd/*")
			if err != nil || len(more) == 0 {
				t.Fatal(more, err)
			}
			units = append(units, more...)
		}
		if out, err := exec.Command(program,
			append([]string{"verify", "--man=no"}, units...)...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("sshd", func(t *testing.T) {
		program := need.Program(t, "sshd")
		if os.Getuid() == 0 {
			b.must(os.MkdirAll("/run/sshd", 0o755))
		}
		sshtest.WriteKey(t, b.path("key"), "ed25519", "")
		b.write("sshd_config", fmt.Sprintf("HostKey %s\nInclude %s\n", b.path("key"), web+"/setup/sshd/gpuboard.conf"))
		if out, err := exec.Command(program, "-t", "-f", b.path("sshd_config")).CombinedOutput(); err != nil ||
			len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("nginx", func(t *testing.T) {
		program := need.Program(t, "nginx")
		b.must(os.Symlink(web+"/setup/nginx", b.path("gpuboard"))) // what includes call it
		b.write("nginx.conf",
			fmt.Sprintf(
				"pid %[1]s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s;\nproxy_temp_path %[1]s;\n"+
					"fastcgi_temp_path %[1]s;\nuwsgi_temp_path %[1]s;\nscgi_temp_path %[1]s;\ninclude gpuboard/http.conf;\ninclude gpuboard/host.conf;\n}\n", b.dir))
		if out, err := exec.Command(program, "-t", "-c", b.path("nginx.conf"), "-p",
			b.dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("consul", func(t *testing.T) {
		// The agent reads a directory of files, of which this is one.
		program := consultest.Program(t)
		b.write("consul/base.json", `{"data_dir": "`+b.path("consul-data")+`", "bind_addr": "127.0.0.1"}`)
		b.write("consul/gpuboard.json", readText(t, node+"/setup/consul/gpuboard.json"))
		if out, err := exec.Command(program, "validate", b.path("consul")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("cron", func(t *testing.T) {
		program := need.Program(t, "crontab")
		for _, dir := range []string{web, node} {
			if out, err := exec.Command(program, "-n", dir+"/setup/cron").CombinedOutput(); err != nil ||
				strings.Contains(string(out), "rror") {
				t.Errorf("%v\n%s", err, out)
			}
			// A % would begin the command's standard input.
			if text := readText(t, dir+"/setup/cron"); strings.Contains(text, "%") {
				t.Errorf("it holds a percent sign:\n%s", text)
			}
		}
	})
}

// loadText reads a configuration file with this content.
func loadText(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpuboard.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(
		config.Sources{Getenv: func(string) string { return "" },
			Flag: func(name string) (string, bool) { return path, name == "config" }})
}
