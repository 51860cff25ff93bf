package setup

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
)

// initialise runs Init in a directory, and returns what it says.
func initialise(t *testing.T, o Options) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o.Program, o.Getenv, o.Out = "/usr/bin/gpuboard", func(string) string { return "" }, &out
	err := Init(o)
	return out.String(), err
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, content string, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInitForOneUser: who sets up a web host for themselves has all of it in one
// place; what root sets up is tried as another account by the program's own tests.
func TestInitForOneUser(t *testing.T) {
	dir := t.TempDir()
	said, err := initialise(t,
		Options{Side: Web, Dir: dir, Host: "gpus.example.org", User: "eva", Group: "eva", Systemd: true})
	if err != nil {
		t.Fatal(err)
	}
	config := read(t, dir, configFile)
	if read(t, dir, usualComments) != builtIn("sample/comments.json") || strings.Contains(config, "\ncomments:") ||
		!strings.Contains(config, "\nsite: "+dir+"/site\n") {
		t.Errorf("bookings or site lie elsewhere:\n%s", config)
	}
	for _, word := range []string{"chown", "runuser", "tmpfiles", "crontab -u"} {
		if strings.Contains(said, word) {
			t.Errorf("without root it tells to type %s:\n%s", word, said)
		}
	}
	if unit := read(t, dir, "setup/systemd/gpuboard-watch.service"); !strings.Contains(unit, "User=eva\n") ||
		strings.Contains(unit, "RuntimeDirectory") {
		t.Errorf("the unit is\n%s", unit)
	}
}

// TestInitPutsTheSiteOnTmpfs: where root sets up a machine with systemd, the site lies on a
// tmpfs, in a directory that units and systemd-tmpfiles make.
func TestInitPutsTheSiteOnTmpfs(t *testing.T) {
	dir := t.TempDir()
	said, err := initialise(t, Options{Side: Web, Dir: dir, Host: "gpus.example.org", Systemd: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		configFile:                                "\nsite: /run/gpuboard/site\n",
		"setup/nginx/host.conf":                   "root /run/gpuboard/site;",
		"setup/systemd/gpuboard-watch.service":    "\nRuntimeDirectory=gpuboard gpuboard/site\nRuntimeDirectoryPreserve=yes\n",
		"setup/systemd/gpuboard-generate.service": "\nRuntimeDirectory=gpuboard gpuboard/site\nRuntimeDirectoryPreserve=yes\n",
		siteTmpfiles:                              "\nd /run/gpuboard 0755 gpuboard gpuboard -\nd /run/gpuboard/site 0755 gpuboard gpuboard -\n",
	} {
		if text := read(t, dir, name); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, text)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "site")); err == nil {
		t.Error("a second directory for the site was made")
	}
	for _, name := range []string{"generate", "watch", "serve", "receive"} {
		if unit := read(t, dir, "setup/systemd/gpuboard-"+name+".service"); !strings.Contains(unit,
			"\nMemoryMax=1G\n") {
			t.Errorf("gpuboard-%s may take all memory of the machine", name)
		}
	}
	// Each step makes what the next one needs, and none leaves a file of root's behind.
	order := []string{"useradd", "systemd-tmpfiles --create", "chown -R gpuboard:gpuboard",
		"runuser -u gpuboard -- /usr/bin/gpuboard generate", "crontab -u gpuboard -",
		"runuser -u gpuboard -- /usr/bin/gpuboard doctor"}
	rest := said
	for _, step := range order {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Fatalf("%q is not in its place:\n%s", step, said)
		}
		rest = after
	}
}

// TestInitKeepsExistingBookings: bookings that are there go on counting, whoever runs it.
func TestInitKeepsExistingBookings(t *testing.T) {
	for _, user := range []string{"", "eva"} {
		dir := t.TempDir()
		write(t, `{"gpu01": [{"name": "ada", "date": "2099-01-01"}]}`, dir, usualComments)
		if _, err := initialise(t, Options{Side: Web, Dir: dir, Host: "web", User: user}); err != nil {
			t.Fatal(err)
		}
		if config := read(t, dir, configFile); strings.Contains(config, "\ncomments:") {
			t.Errorf("for %q the configuration names other bookings:\n%s", user, config)
		}
		if _, err := os.Lstat(filepath.Join(dir, "bookings")); err == nil {
			t.Error("a second file of bookings was made")
		}
	}
}

// TestFlagsReachAnExistingConfiguration: what was asked for is in force after it, or
// nothing was done.
func TestFlagsReachAnExistingConfiguration(t *testing.T) {
	const to = "sftp://n-gpu01@web.example/in"
	for _, c := range []struct{ name, before, after, refused string }{
		{"commented out", "# ours\n#to: ''\nidentity: /etc/gpuboard/id\n",
			"# ours\nto: " + to + "\nidentity: /etc/gpuboard/id\nhost: gpu01\nknown_hosts: DIR/known_hosts\n", ""},
		{"the same", "host: gpu01\nto: " + to + "\n", "host: gpu01\nto: " + to + "\n", ""},
		{"no line end", "lab: ours",
			"lab: ours\nhost: gpu01\nidentity: DIR/id_ed25519\nknown_hosts: DIR/known_hosts\nto: " + to + "\n", ""},
		{"another drop", "to: sftp://other/in\n", "", "gpuboard.yml:1: to is sftp://other/in, and not " + to},
		{"another name", "host: gpu02\n", "", "gpuboard.yml:1: host is gpu02, and not gpu01"},
		{"no mapping to add to", "{lab: ours}\n", "", "does not take what was asked for"},
		{"nothing asked of it", "every: 1m\n",
			"every: 1m\nhost: gpu01\nidentity: DIR/id_ed25519\nknown_hosts: DIR/known_hosts\nto: " + to + "\n", ""},
		{"broken", "host: [\n", "", "gpuboard.yml:1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, c.before, dir, configFile)
			said, err := initialise(t, Options{Side: Node, Dir: dir, Host: "gpu01", To: to})
			after := strings.ReplaceAll(read(t, dir, configFile), dir, "DIR")
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) ||
					failure.Explain(err).Exit != failure.ExitUsage {
					t.Errorf("error is %v", err)
				}
				if after != c.before {
					t.Errorf("it was changed to\n%s", after)
				}
				if _, err := os.Lstat(filepath.Join(dir, "setup")); err == nil {
					t.Error("files were written all the same")
				}
				return
			}
			after = strings.ReplaceAll(after, "'", "")
			if err != nil || after != c.after {
				t.Fatalf("%v\n%s\nwant\n%s", err, after, c.after)
			}
			if added := strings.Count(said, "added  "); added != strings.Count(c.after,
				"\n")-strings.Count(strings.TrimSuffix(c.before, "\n"), "\n")-1+strings.Count(c.before, "#to") {
				t.Errorf("it speaks of %d lines:\n%s", added, said)
			}
		})
	}
}

func TestImportDoesNotChangeAConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, "lab: ours\n", dir, configFile)
	write(t, "gpu01\n", dir, "hosts.txt")
	if _, err := initialise(t,
		Options{Side: Web, Dir: dir, Host: "web", From: filepath.Join(dir, "hosts.txt")}); err == nil ||
		!strings.Contains(err.Error(), "--from") {
		t.Errorf("error is %v", err)
	}
}

// TestImportOfConsul: the new board asks the same Consul for the same service, whatever starts its generations.
func TestImportOfConsul(t *testing.T) {
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "fetch_stats_conf.json")
	write(t, `{"CONSUL_SERVICE_URI": "http://consul.lab.example:8500/v1/catalog/service/gpu-servers?tag=cuda"}`, list)
	said, err := initialise(t, Options{Side: Web, Dir: dir, Host: "web", User: "eva", From: list})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadFile(filepath.Join(dir, configFile), noVariables)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := cfg.Consul(); err != nil || !cfg.AsksConsul() || o.Service != "gpu-servers" ||
		!slices.Equal(o.Tags, []string{"cuda"}) || len(cfg.Hosts) != 0 {
		t.Errorf("the configuration asks for %+v, %v", o, err)
	}
	const variable = "CONSUL_HTTP_ADDR=http://consul.lab.example:8500"
	for name, want := range map[string]string{
		said:                       "env " + variable + " /usr/bin/gpuboard generate -v",
		read(t, dir, "setup/cron"): "\n" + variable + "\n* * * * *",
		read(t, dir, "setup/systemd/gpuboard-watch.service"): "\nEnvironment=" + variable + "\n",
	} {
		if !strings.Contains(name, want) {
			t.Errorf("there is no %q in\n%s", want, name)
		}
	}
}

// TestImportedPort: the built-in web server takes the place of the old page.
func TestImportedPort(t *testing.T) {
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "config.yml")
	write(t, "web_port: 8042\nhosts:\n  - gpu01\n", list)
	said, err := initialise(t, Options{Side: Web, Dir: dir, Host: "web", User: "eva", From: list})
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := config.LoadFile(filepath.Join(dir, configFile), noVariables); err != nil || cfg.String("listen") != "127.0.0.1:8042" {
		t.Errorf("it listens at %s, %v", cfg.String("listen"), err)
	}
	for what, text := range map[string]string{"the crontab": read(t, dir, "setup/cron"),
		"the unit": read(t, dir, "setup/systemd/gpuboard-serve.service"), "init": said} {
		if !strings.Contains(text, "gpuboard serve") ||
			strings.Count(text, "serve --listen") != strings.Count(text, "serve --listen 127.0.0.1:8042") {
			t.Errorf("%s names another address:\n%s", what, text)
		}
	}
}

// TestInitWritesTheZone: that of TZ, where it has a name.
func TestInitWritesTheZone(t *testing.T) {
	for tz, want := range map[string]string{"Asia/Tokyo": "Asia/Tokyo", ":Asia/Tokyo": "Asia/Tokyo",
		"JST-9": config.ZoneName(func(string) string { return "" })} {
		dir := t.TempDir()
		err := Init(
			Options{Side: Web, Dir: dir, Host: "web", User: "eva", Program: "/usr/bin/gpuboard", Out: io.Discard,
				Getenv: func(name string) string { return map[string]string{"TZ": tz}[name] }})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadFile(filepath.Join(dir, configFile), noVariables)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.String("timezone"); got != want {
			t.Errorf("TZ=%s: timezone is %q, want %q", tz, got, want)
		}
	}
}

// TestGenerationsByCronSayTheirInterval: whatever starts one generation a minute says so, because
// pages decide by the interval whether they are out of date.
func TestGenerationsByCronSayTheirInterval(t *testing.T) {
	dir := t.TempDir()
	if _, err := initialise(t, Options{Side: Web, Dir: dir, Host: "web", User: "eva"}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"setup/cron":   read(t, dir, "setup/cron"),
		"cron.example": read(t, "../../cron.example"),
		"the playbook": read(t, "../../deploy/ansible/tasks/web.yml"),
		"the unit":     read(t, dir, "setup/systemd/gpuboard-generate.service"),
	} {
		if !strings.Contains(text, "gpuboard generate --interval 1m") || strings.Count(text, "gpuboard generate") != 1 {
			t.Errorf("%s generates once a minute, and pages believe that it is another interval:\n%s", name, text)
		}
	}
}

// noVariables is an environment without any.
func noVariables(string) string { return "" }
