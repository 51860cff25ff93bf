package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/testenv/machinetest"
)

// The units that go on, and those that a timer calls.
var (
	loops = []string{"gpuboard-node.service", "gpuboard-receive.service", "gpuboard-serve.service",
		"gpuboard-watch.service"}
	timers = []string{"gpuboard-collect.timer", "gpuboard-generate.timer"}
)

// onAMachine installs a package on a machine with systemd, follows the
// documentation until there is a board, upgrades it, and takes it away again.
// packages are the same version's deb and rpm, and the next one's.
func onAMachine(t *testing.T, dist, next string) {
	m := machinetest.Boot(t, machinetest.Options{})
	bring := func(path string) string {
		m.Write("/root/"+filepath.Base(path), mustReadFile(t, path), 0o644)
		return "/root/" + filepath.Base(path)
	}
	// Other packages' triggers take seconds, and have nothing to do with this one.
	dpkg := func(args ...string) {
		t.Helper()
		m.Run(append([]string{"dpkg", "--force-unsafe-io", "--no-triggers"}, args...)...)
	}
	dpkg("--install", bring(dist+"/gpuboard_1.2.3_amd64.deb"))
	for _, unit := range slices.Concat(loops, timers) {
		if out, _ := m.Try("systemctl", "is-enabled", unit); strings.TrimSpace(out) != "disabled" {
			t.Errorf("%s, as installed, is %s", unit, out)
		}
	}
	board(t, m)
	hardened(t, m)
	keepsGoing(t, m)
	onTime(t, m)

	// The next version, with a configuration file of its own: what runs is
	// restarted, what does not is left alone, and the site's file stays.
	before := map[string]string{}
	m.Run("systemctl", "stop", "gpuboard-receive.service")
	for _, unit := range loops {
		before[unit] = m.Property(unit, "MainPID")
	}
	ours := m.Read("/etc/gpuboard/gpuboard.yml")
	dpkg("--force-confdef", "--force-confold", "--install", bring(next+"/gpuboard_1.2.4_amd64.deb"))
	for _, unit := range loops {
		now := m.Property(unit, "MainPID")
		if running := unit != "gpuboard-receive.service"; running == (now == before[unit]) || running == (now == "0") {
			t.Errorf("after the upgrade %s is process %s, and was %s", unit, now, before[unit])
		}
		if m.Property(unit, "NeedDaemonReload") != "no" {
			t.Errorf("systemd has not read %s again", unit)
		}
	}
	if v := m.Run("gpuboard", "version"); v != "gpuboard 1.2.4\n" {
		t.Errorf("after the upgrade it is %s", v)
	}
	if m.Read("/etc/gpuboard/gpuboard.yml") != ours ||
		!strings.Contains(m.Read("/etc/gpuboard/gpuboard.yml.dpkg-dist"), "# Of 1.2.4.") {
		t.Error("the upgrade changed the configuration, or keeps its own from us")
	}
	m.Run("systemctl", "start", "gpuboard-receive.service")
	m.Until("a site by the next version", func() bool {
		return strings.Contains(m.Read("/run/gpuboard/site/index.html"), "1.2.4") && shows(m, "gpu01")
	})
	if out := mustDoctor(m, "node"); strings.Contains(out, "loop:old-version") {
		t.Errorf("the loop is of another version:\n%s", out)
	}

	dpkg("--remove", "gpuboard")
	gone(t, m)
	if m.Read("/etc/gpuboard/gpuboard.yml") != ours {
		t.Error("removing it took the configuration")
	}
	dpkg("--purge", "gpuboard")
	stays(t, m, "/etc/gpuboard/gpuboard.yml", false)

	// The same as an rpm, on the same machine: what is there is taken over.
	rpm := func(args ...string) {
		m.Run(append([]string{"rpm", "--nodeps", "--force-debian", "--nosignature"}, args...)...)
	}
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Fatal(err) // check.sh installs it, and the subtest before this one has skipped
	}
	rpm("--install", bring(dist+"/gpuboard-1.2.3-1.x86_64.rpm"))
	m.Write("/etc/gpuboard/gpuboard.yml", ours, 0o644)
	m.Run("systemctl", "enable", "--now", "gpuboard-watch.service")
	pid := m.Property("gpuboard-watch.service", "MainPID")
	rpm("--upgrade", bring(next+"/gpuboard-1.2.4-1.x86_64.rpm"))
	if now := m.Property("gpuboard-watch.service", "MainPID"); now == pid || now == "0" {
		t.Errorf("after the rpm's upgrade the site's unit is process %s, and was %s", now, pid)
	}
	if m.Read("/etc/gpuboard/gpuboard.yml") != ours ||
		!strings.Contains(m.Read("/etc/gpuboard/gpuboard.yml.rpmnew"), "# Of 1.2.4.") {
		t.Error("the rpm's upgrade changed the configuration, or keeps its own from us")
	}
	if out, _ := m.Try("systemctl", "is-enabled", "gpuboard-watch.service"); strings.TrimSpace(out) != "enabled" {
		t.Errorf("after the rpm's upgrade it is %s", out)
	}
	rpm("--erase", "gpuboard")
	gone(t, m)
	stays(t, m, "/srv/gpuboard/bookings/comments.json", true)
}

// board makes web host and node of one machine, by the units alone: the
// collector pushes to the drop box, the generator makes the site of it, the web
// server shows it and takes a booking.
func board(t *testing.T, m *machinetest.Machine) {
	capture := mustReadFile(t, "collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	m.Write("/srv/capture.xml", capture, 0o644)
	m.Write("/usr/bin/nvidia-smi", "#!/bin/sh\nexec cat /srv/capture.xml\n", 0o755)
	m.Run("systemd-tmpfiles", "--create", "/usr/share/doc/gpuboard/gpuboard-web.tmpfiles")
	m.Run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/gpuboard/id_ed25519")
	m.Run("chown", "gpuboard:", "/etc/gpuboard/id_ed25519")
	m.Write("/var/lib/gpuboard/state/keys/gpu01.pub", m.Read("/etc/gpuboard/id_ed25519.pub"), 0o644)
	m.Run("chown", "-R", "gpuboard:", "/var/lib/gpuboard")
	hash, err := bcrypt.GenerateFromPassword([]byte("ada's"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	m.Write("/etc/gpuboard/htpasswd", "ada:"+string(hash)+"\n", 0o644)
	m.Write("/etc/gpuboard/gpuboard.yml", `host: gpu01
every: 2s
to: sftp://gpu01@127.0.0.1:2222/
identity: /etc/gpuboard/id_ed25519
known_hosts: /etc/gpuboard/known_hosts
data: /srv/gpuboard/data
site: /run/gpuboard/site
comments: /srv/gpuboard/bookings/comments.json
password: /etc/gpuboard/htpasswd
booking:
  form: true
`, 0o644)
	m.Run("systemctl", "enable", "--now", "gpuboard-receive.service")
	m.Until("what it lacks", func() bool {
		log, _ := m.Try("journalctl", "--no-pager", "--unit=gpuboard-receive.service")
		return strings.Contains(log, "hint: chown ")
	})
	m.Run("chown", "gpuboard:", "/srv/gpuboard/data/drop")
	m.Until("the key of the drop box", func() bool {
		keys, _ := m.Command(t.Context(), "ssh-keyscan", "-p", "2222", "127.0.0.1").Output()
		m.Write("/etc/gpuboard/known_hosts", string(keys), 0o644)
		return len(keys) > 0
	})
	m.Run(append([]string{"systemctl", "enable", "--now"}, loops...)...)
	m.Until("a board with gpu01 on it", func() bool { return shows(m, "gpu01") })

	client := m.Client()
	get := func(path string) (string, *http.Response) {
		req, _ := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
		req.SetBasicAuth("ada", "ada's")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body), resp
	}
	if page, resp := get("/"); resp.StatusCode != http.StatusOK || !strings.Contains(page, "gpu01") {
		t.Fatalf("the web server answers %s:\n%s", resp.Status, page)
	}
	form, resp := get("/book/?at=gpu01:0")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the form is %s:\n%s", resp.Status, form)
	}
	req, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/book/?at=gpu01:0",
		strings.NewReader(url.Values{"action": {"book"}, "until": {"1d"}}.Encode()))
	req.SetBasicAuth("ada", "ada's")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "http://127.0.0.1:8080")
	if resp, err = client.Do(req); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("the booking is answered with %s", resp.Status)
	}
	m.Until("the booking on the board",
		func() bool { return strings.Contains(m.Read("/run/gpuboard/site/index.html"), "ada") })
	// The site lies in memory: the end of the unit leaves it there, and after a
	// start of the machine the unit makes it again, for every web server to read.
	m.Run("systemctl", "stop", "gpuboard-watch.service")
	stays(t, m, "/run/gpuboard/site/index.html", true)
	m.Run("rm", "-rf", "/run/gpuboard")
	m.Run("systemctl", "start", "gpuboard-watch.service")
	m.Until("the site after a start of the machine", func() bool { return shows(m, "gpu01") })
	m.Run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "cat", "/run/gpuboard/site/index.html")
	if out := mustDoctor(m, "web"); strings.Contains(out, "BAD") {
		t.Errorf("doctor web:\n%s", out)
	}
	if out := mustDoctor(m, "node"); strings.Contains(out, "BAD") {
		t.Errorf("doctor node:\n%s", out)
	}
}

// mustDoctor is what doctor says on the machine, as the account of the units.
func mustDoctor(m *machinetest.Machine, side string) string {
	out, _ := m.Try("setpriv", "--reuid=gpuboard", "--regid=gpuboard", "--clear-groups", "env",
		"HOME=/var/lib/gpuboard", "gpuboard", "doctor", side, "--config", "/etc/gpuboard/gpuboard.yml")
	return out
}

// hardened looks from where the units stand: at what they may write, and see.
func hardened(t *testing.T, m *machinetest.Machine) {
	m.Write("/home/ada/secret", "", 0o644)
	for unit, mayWrite := range map[string][]string{
		"gpuboard-node.service":    {"/var/lib/gpuboard"},
		"gpuboard-receive.service": {"/var/lib/gpuboard", "/srv/gpuboard/data/drop"},
		"gpuboard-watch.service":   {"/var/lib/gpuboard", "/run/gpuboard/site", "/srv/gpuboard/data/drop"}, "gpuboard-serve.service": {"/var/lib/gpuboard", "/srv/gpuboard/data/drop", "/srv/gpuboard/bookings"}, // comments.json may be in data
	} {
		// As root, but with the unit's view of the file system: what is refused is
		// refused by the unit and not by modes.
		inside := func(script string) bool {
			pid := m.Property(unit, "MainPID")
			_, err := m.Try("nsenter", "--target", pid, "--mount", "--wd=/", "--", "sh", "-c", script)
			return err == nil
		}
		for _, dir := range []string{"/etc", "/usr/bin", "/var/lib", "/srv", "/home/ada", "/var/lib/gpuboard",
			"/run/gpuboard/site", "/srv/gpuboard/data/drop", "/srv/gpuboard/bookings"} {
			want := slices.Contains(mayWrite, dir)
			if got := inside("touch " + dir + "/.test && rm " + dir + "/.test"); got != want {
				t.Errorf("%s may write %s: %v", unit, dir, got)
			}
		}
		node := unit == "gpuboard-node.service"
		if got := inside("test -e /home/ada/secret"); got != node {
			t.Errorf("%s sees homes: %v", unit, got)
		}
		if got := inside("test -e /dev/pts/ptmx && test -e /dev/random"); !got {
			t.Errorf("%s sees no devices at all", unit)
		}
		status := m.Run("cat", "/proc/"+m.Property(unit, "MainPID")+"/status")
		for _, want := range []string{"CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n",
			"NoNewPrivs:\t1\n"} {
			if !strings.Contains(status, want) {
				t.Errorf("%s runs without %s", unit, want)
			}
		}
		if uid := strings.TrimSpace(m.Run("id", "-u", "gpuboard")); !strings.Contains(status, "Uid:\t"+uid+"\t"+uid) {
			t.Errorf("%s runs as\n%s", unit, status)
		}
		if !node && !strings.Contains(status, "Seccomp:\t2\n") {
			t.Errorf("%s may make every system call", unit)
		}
	}
}

// keepsGoing kills what runs, and breaks the configuration.
func keepsGoing(t *testing.T, m *machinetest.Machine) {
	for _, unit := range loops {
		m.Write("/etc/systemd/system/"+unit+".d/fast.conf", "[Service]\nRestartSec=50ms\n", 0o644)
	}
	m.Run("systemctl", "daemon-reload")
	for _, unit := range loops {
		pid := m.Property(unit, "MainPID")
		m.Run("systemctl", "kill", "--signal=KILL", unit)
		m.Until(unit+" running again", func() bool {
			now := m.Property(unit, "MainPID")
			return now != pid && now != "0" && m.Property(unit, "SubState") == "running"
		})
	}
	ours := m.Read("/etc/gpuboard/gpuboard.yml")
	m.Write("/etc/gpuboard/gpuboard.yml", ours+"tittle: x\n", 0o644)
	m.Run("systemctl", "stop", "gpuboard-watch.service")
	m.Run("systemctl", "start", "gpuboard-watch.service")
	m.Until("a unit that gives up",
		func() bool { return m.Property("gpuboard-watch.service", "ActiveState") == "failed" })
	if n := m.Property("gpuboard-watch.service", "NRestarts"); n != "0" {
		t.Errorf("with a configuration that is wrong it is started %s times again", n)
	}
	if log := m.Run("journalctl", "--no-pager", "--unit=gpuboard-watch.service", "--lines=20"); !strings.Contains(log,
		"did you mean") {
		t.Errorf("the journal does not say why:\n%s", log)
	}
	m.Write("/etc/gpuboard/gpuboard.yml", ours, 0o644)
	m.Run("systemctl", "restart", "gpuboard-watch.service")

	// Enabled means: there again when the machine starts.
	m.Run(append([]string{"systemctl", "stop"}, loops...)...)
	m.Run("systemctl", "start", "multi-user.target")
	for _, unit := range loops {
		m.Until(unit+" at boot", func() bool { return m.Property(unit, "SubState") == "running" })
	}
}

// onTime lets timers do what the loops do, every three seconds.
func onTime(t *testing.T, m *machinetest.Machine) {
	m.Run("systemctl", "stop", "gpuboard-node.service", "gpuboard-watch.service")
	for _, unit := range timers {
		m.Write("/etc/systemd/system/"+unit+".d/fast.conf",
			"[Timer]\nOnCalendar=\nOnCalendar=*:*:0/3\nRandomizedDelaySec=0\n", 0o644)
	}
	m.Run("systemctl", "daemon-reload")
	was := boardOn(m).snapshotAt("gpu01")
	m.Run(append([]string{"systemctl", "enable", "--now"}, timers...)...)
	m.Until("a board by timers", func() bool { return boardOn(m).snapshotAt("gpu01") > was })
	m.Run(append([]string{"systemctl", "disable", "--now"}, timers...)...)
	for _, timer := range timers {
		unit := strings.TrimSuffix(timer, ".timer") + ".service"
		m.Until("the end of "+unit, func() bool { return m.Property(unit, "ActiveState") != "activating" })
		if got := m.Property(unit, "Result"); got != "success" {
			t.Errorf("%s ends as %s:\n%s", unit, got, m.Run("journalctl", "--no-pager", "--unit="+unit, "--lines=20"))
		}
	}
	m.Run("systemctl", "start", "gpuboard-node.service", "gpuboard-watch.service")

	// The log of a loop by cron would be rotated as the account, in a directory
	// that is not root's.
	if _, err := exec.LookPath("logrotate"); err == nil {
		m.Write("/var/lib/gpuboard/spool/run.log", "old\n", 0o600)
		m.Run("chown", "gpuboard:", "/var/lib/gpuboard/spool/run.log")
		m.Run("logrotate", "--force", "--state", "/root/rotated", "/etc/logrotate.d/gpuboard")
		stays(t, m, "/var/lib/gpuboard/spool/run.log.1.gz", true)
	}
}

// gone checks what a removed package leaves.
func gone(t *testing.T, m *machinetest.Machine) {
	t.Helper()
	for _, unit := range slices.Concat(loops, timers) {
		if got := m.Property(unit, "ActiveState"); got == "active" {
			t.Errorf("removed, and %s is %s", unit, got)
		}
	}
	if left, err := filepath.Glob(m.Path("/etc/systemd/system/*.wants/gpuboard*")); err != nil || len(left) > 0 {
		t.Errorf("still enabled: %v, %v", left, err)
	}
	if out, err := m.Try("pgrep", "-u", "gpuboard"); err == nil {
		t.Errorf("removed, and running: %s", out)
	}
	stays(t, m, "/usr/bin/gpuboard", false)
	stays(t, m, "/var/lib/gpuboard/spool", true)
	stays(t, m, "/srv/gpuboard/bookings/comments.json", true)
}

func stays(t *testing.T, m *machinetest.Machine, path string, want bool) {
	t.Helper()
	if _, err := os.Stat(m.Path(path)); (err == nil) != want {
		t.Errorf("%s is there: %v", path, err == nil)
	}
}

// A shownBoard is what board.json says.
type shownBoard struct {
	Hosts []struct {
		Name       string
		State      string
		SnapshotAt string `json:"snapshot_at"`
		GPUs       []json.RawMessage
	}
}

func boardOn(m *machinetest.Machine) (b shownBoard) {
	_ = json.Unmarshal([]byte(m.Read("/run/gpuboard/site/api/v1/board.json")), &b) // not there yet
	return b
}

// shows reports whether the site shows hosts with their eight GPUs each: in its
// data and on its front page, which a generation writes last.
func shows(m *machinetest.Machine, hosts ...string) bool {
	board, page := boardOn(m), m.Read("/run/gpuboard/site/index.html")
	for _, host := range hosts {
		if !board.up(host) || !strings.Contains(page, host) {
			return false
		}
	}
	return true
}

func (b shownBoard) up(host string) bool {
	for _, h := range b.Hosts {
		if h.Name == host {
			return h.State == "up" && len(h.GPUs) == 8
		}
	}
	return false
}

func (b shownBoard) snapshotAt(host string) string {
	for _, h := range b.Hosts {
		if h.Name == host {
			return h.SnapshotAt
		}
	}
	return ""
}
