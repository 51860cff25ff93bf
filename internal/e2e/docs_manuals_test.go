package e2e

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// noCommand is the first line of code that is not to be typed: parts of files,
// and what programs print.
var noCommand = regexp.MustCompile(
	`^(\{|timezone: |--free: |include |Include |import |server\.modules |Markdown  |adal, |@vision: |consul:|hosts:|short_names:|pull:|gpuboard: |//|gpu01:0 booked|data: |Match |data/|node  |login,mail|to: s3|drops: s3|publish_to: |discord  )`)

// A manual is what a page takes for granted, and who else runs its commands.
type manual struct {
	by     string // the test that runs them all
	setup  func(*sandbox)
	before func(s *sandbox, command string) // what the text around a command says to do by hand
	after  func(s *sandbox)                 // what has come of it all
}

// oneBooking has the id that pages show.
const oneBooking = `{"gpu02": {"7": {"id": "mjqxg3di", "name": "eva", "date": "2099-01-01 12:00"}}}`

// bookedHere is a booking on the node where commands are typed.
const bookedHere = `{
	"gpu01": {"7": {"name": "eva", "date": "2099-01-01 12:00"}},
	"gpu02": {"6": {"name": "mira", "date": "2099-01-01 12:00"}, "7": {"id": "mjqxg3di", "name": "eva", "date": "2099-01-01 12:00"}}
}`

func manuals() map[string]manual {
	board := manual{setup: (*sandbox).board}
	return map[string]manual{
		"docs/bookings.md":        {by: "TestDocumentedCommandsAreRun"},
		"docs/consul.md":          {by: "TestRealConsul"},
		"deploy/consul/README.md": {by: "TestRealConsul"},
		"docs/api.md":             board,
		"docs/finding-gpus.md": {setup: (*sandbox).board, before: func(s *sandbox, command string) {
			if strings.Contains(command, "--booked-only") {
				s.write("srv/gpuboard/data/comments.json", bookedHere)
			}
		}, after: tmuxLine},
		"docs/metrics.md": {setup: func(s *sandbox) { s.board(); s.write("var/lib/node_exporter/README", "") }},
		"docs/notify.md": {setup: func(s *sandbox) {
			s.board()
			s.hook()
		}},
		"docs/troubleshooting.md": {setup: func(s *sandbox) {
			s.board()
			s.typed("gpuboard check gpu01 --to file:///srv/gpuboard/data")
		}},
		"docs/bookings-web.md":  board,
		"docs/configuration.md": board,
		"docs/commands.md": {setup: (*sandbox).board, before: func(s *sandbox, command string) {
			switch {
			case strings.Contains(command, "--booked-only"):
				s.write("srv/gpuboard/data/comments.json", bookedHere)
			case strings.HasPrefix(command, "gpuboard book gpu01:0,1"): // which the example before it may have picked
				s.write("srv/gpuboard/data/comments.json", oneBooking)
			case command == "gpuboard publish":
				s.env = append(s.env, "GPUBOARD_TO=file://"+s.path("srv/gpuboard/data"))
			case strings.HasPrefix(command, "gpuboard receive"):
				for _, dir := range []string{s.path("srv/gpuboard/state/keys"), s.path("work/keys")} {
					s.must(os.MkdirAll(dir, 0o700))
					if !exists(dir + "/gpu01.pub") {
						s.typed("ssh-keygen -q -t ed25519 -N '' -f " + dir + "/gpu01")
					}
				}
			case strings.HasPrefix(command, "gpuboard status --from"):
				s.write("srv/gpuboard/data/comments.json", oneBooking)
				s.typed("gpuboard generate")
			case strings.Contains(command, "--from hosts.txt"):
				s.write("work/hosts.txt", "gpu01\n")
			case strings.Contains(command, "/etc/gpuboard/users"):
				s.typed("htpasswd -cB /etc/gpuboard/users eva")
			case strings.HasPrefix(command, "gpuboard publish --to sftp"), strings.HasPrefix(command,
				"gpuboard check"), strings.HasPrefix(command, "gpuboard run --to sftp"):
				s.must(os.MkdirAll(s.path("srv/gpuboard/data/drop/gpu01/in"), 0o755))
			case strings.HasPrefix(command, "gpuboard notify"):
				s.hook()
			case strings.HasPrefix(command, "gpuboard release atlas"), strings.HasPrefix(command,
				"gpuboard extend atlas"):
				s.write("srv/gpuboard/data/comments.json",
					`{"atlas": {"0": {"name": "mira", "date": "2099-01-01 12:00"}}}`)
			case strings.HasPrefix(command, "gpuboard release gpu01"):
				s.write("srv/gpuboard/data/comments.json", oneBooking)
				s.typed("gpuboard book gpu01:0,1 --for 1h")
			case strings.HasPrefix(command, "gpuboard extend gpu01:0"):
				s.write("srv/gpuboard/data/comments.json", "{}")
				s.typed("gpuboard book gpu01:0 --for 1h")
			}
		}},
		"docs/care.md": careManual(),
		"docs/members.md": {setup: (*sandbox).board, before: func(s *sandbox, command string) {
			if strings.HasPrefix(command, "gpuboard extend") { // the example before it has a name of its own
				s.write("srv/gpuboard/data/comments.json", "{}")
				s.typed("gpuboard book gpu01:4 --for 1h")
			}
		}},
		"docs/webservers.md": board,
		"docs/scale.md":      board,
		"docs/migration.md": {setup: olderBoards, before: func(s *sandbox, command string) {
			switch {
			case strings.HasPrefix(command, "gpuboard init web"):
				s.must(os.RemoveAll(s.path("srv/gpuboard"))) // each section begins anew
			case strings.HasPrefix(command, "gpuboard generate"): // a node has moved
				s.typed("gpuboard collect --host gpu01 && gpuboard publish --host gpu01 --to file:///srv/gpuboard/data")
			case strings.HasPrefix(command, "htpasswd"):
				s.typed("gpuboard generate --config /srv/gpuboard/gpuboard.yml")
			}
		}},
		"docs/migration-001.md": {setup: phpBoard, after: func(s *sandbox) {
			s.pushed("srv/gpuboard/data/drop/gpu01/in")
			s.typed("gpuboard generate --config /etc/gpuboard/gpuboard.yml")
			s.shows("gpu01")
		}, before: func(s *sandbox, command string) {
			if strings.HasPrefix(command, "gpuboard collect") {
				s.must(os.MkdirAll(s.path("srv/gpuboard/data/drop/gpu01/in"), 0o755))
			}
		}},
		"docs/install.md": {after: func(s *sandbox) {
			s.pushed("srv/gpuboard/data/drop/gpu01/in")
			s.typed("gpuboard generate --config /srv/gpuboard/gpuboard.yml")
			s.shows("gpu01")
		}, before: func(s *sandbox, command string) {
			switch {
			case strings.HasPrefix(command, "gpuboard receive"):
				s.must(os.MkdirAll(s.path("srv/gpuboard/data/drop/gpu01/in"), 0o755))
				s.must(os.MkdirAll(s.path("srv/gpuboard/state/keys"), 0o700))
				s.typed("ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub /srv/gpuboard/state/keys/gpu01.pub")
			case strings.HasPrefix(command, "cp deploy/ansible/inventory"):
				s.must(os.RemoveAll(s.path("work/inventory")))
			}
		}},
		"README.md": {setup: func(s *sandbox) { s.env = append(s.env, "GPUBOARD_STATE=") },
			before: func(s *sandbox, command string) {
				switch {
				case strings.HasPrefix(command, "gpuboard check"): // "type the command"
					s.typed(knownHostsCommand.FindString(s.said["gpuboard receive"]))
					s.env = append(s.env, "GPUBOARD_KNOWN_HOSTS="+s.path("home/.ssh/known_hosts"), "GPUBOARD_IDENTITY=")
				case strings.HasPrefix(command, "gpuboard book"):
					s.pushed("home/board/data/drop/gpu01")
				}
			}, after: func(s *sandbox) {
				s.showsIn("home/board/site", "gpu01")
				if board := s.logged(s.path("home/board/site/api/v1/board.json")); !strings.Contains(string(board),
					`"name": "eva"`) && !strings.Contains(string(board), `"name":"eva"`) {
					s.t.Error("the board does not show the booking")
				}
			}},
	}
}

var knownHostsCommand = regexp.MustCompile(`echo '\[127\.0\.0\.1\]:\d+ ssh-.*`)

// reasons are why a command is not run here, by what it begins with or holds.
func reasons() [][2]string {
	return [][2]string{
		{"./check.sh", "it is the gate that runs this test"},
		{"go test ./internal/cli", "it is a part of the gate that runs this test"},
		{"go run . demo", "TestDemo runs it, from start to Ctrl-C"},
		{"gpuboard demo", "TestDemo runs it, from start to Ctrl-C"},
		{"go build", "this test began with it; TestRelease builds it as shown"},
		{"deploy/package/build.sh", "TestRelease runs it"},
		{"apt-get install", "TestRelease installs, upgrades and removes the package in a root of its own"},
		{"systemctl ", "there is no systemd to talk to; TestUnitsAreAccepted lets systemd-analyze check the units"},
		{"journalctl ", "there is no journal"},
		{"systemd-tmpfiles", "TestDirectoriesAndAccounts runs it below a root of its own"},
		{"/usr/share/doc/gpuboard/", "it is where the package puts it: TestRelease"},
		{"ansible-playbook", "TestAnsible runs the playbook, twice"},
		{"sudo -u gpuboard gpuboard doctor", "TestAnsible makes that account"},
		{"a2enmod", "it would change this machine's Apache; TestWebServers starts one with these modules"},
		{"caddy hash-password", "it asks a terminal; TestWebServers has a password"},
		{"gpuboard accept", "TestAcceptedHost in sitegen and accept.txtar do it; nothing was replayed here"},
		{"gpuboard pull", "TestPulledIsAsCollected reads a node over a real sshd"},
		{"gpuboard containers", "it asks this machine's engines as root: TestCronExample and containers.txtar run it"},
		{"gpuboard status --free --watch", "it needs a terminal: TestStatusIsDrawnAgain"},
		{"gpuboard usage --since 2026-10-01", "the board here is younger: TestUsageOfAMonth"},
		{"gpuboard deregister", "TestRealConsul does it; there is no Consul here"},
		{"gpuboard register", "TestRealConsul does it; there is no Consul here"},
		{"gpu-check.sh", "it is the older board's own"},
		{"install -m 644 gpu01.pub /var/lib/gpuboard", "the package makes that directory: TestDirectoriesAndAccounts"},
		{"gpuboard init node /etc/gpuboard --host gpu01 --to sftp://gpu01@WEBHOST",
			"the same with another address is typed below it"},
		{"/etc/tmpfiles.d/gpuboard-web.conf", "TestDirectoriesAndAccounts makes this change and has systemd read it"},
		{"bench/against.sh", "it measures two commits for minutes"},
		{"go -C bench run", "it measures everything for minutes"},
		{"VERSION=", "TestRelease runs it"},
		{"sha256sum -c --ignore-missing", "TestRelease compares two releases so"},
	}
}

// olderBoards lays out what other boards leave behind, and answers as their
// servers do.
func olderBoards(s *sandbox) {
	older := http.NewServeMux()
	for path, file := range map[string]string{"/states/": "states.json", "/get-status": "get-status.json",
		"/cluster_status": "cluster_status.json"} {
		older.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, "internal/cli/testdata/older/"+file)
		})
	}
	w := httptest.NewServer(older)
	s.t.Cleanup(w.Close)
	s.byHand = append(s.byHand, "http://OLDBOARD:8080", w.URL, "http://OLDBOARD:7070", w.URL, "http://OLDBOARD:1080",
		w.URL)
	for name, to := range map[string]string{"hosts.txt": "hosts.txt", "config.yml": "config.yml",
		"inventory": "ansible-install/hosts"} {
		data, err := os.ReadFile("internal/cli/testdata/older/" + name)
		s.must(err)
		s.write("work/"+to, string(data))
	}
	s.write("home/crontab", "*/5 * * * * /opt/gpu_info_sender.py\n0 1 * * * /usr/bin/backup\n")
}

// hook is a program that hears of what happens.
func (s *sandbox) hook() {
	s.t.Helper()
	s.shim("lights", "exit 0")
	file := s.path("etc/gpuboard/gpuboard.yml")
	config, err := os.ReadFile(file)
	s.must(err)
	if !strings.Contains(string(config), "notify:") {
		s.must(
			os.WriteFile(file,
				append(config,
					[]byte("notify:\n  - name: lights\n    command: ["+s.path("bin/lights")+", --room, \"12\"]\n")...),
				0o644))
	}
}

// phpBoard is a directory that the older scripts write to.
func phpBoard(s *sandbox) {
	s.must(os.CopyFS(s.path("var/www/html/data"), os.DirFS("internal/legacy/testdata/old")))
}

// tmuxLine lets a real tmux read the lines of docs/finding-gpus.md, and wants what is free in its status line; and the
// same, with its time, from the line for those who log in.
func tmuxLine(s *sandbox) {
	program := need.Program(s.t, "tmux")
	lines := regexp.MustCompile(
		"(?ms)^```tmux\n(.*?)^```$").FindStringSubmatch(mustReadFile(s.t, "docs/finding-gpus.md"))
	if lines == nil {
		s.t.Fatal("docs/finding-gpus.md has no lines for tmux")
	}
	s.write("home/.tmux.conf", s.here(lines[1]))
	s.env = append(s.env, "TERM=xterm")
	// A tmux within another one, which shows its screen.
	outer, inner := program+" -S "+s.path("outer"), program+" -S "+s.path("inner")
	s.typed(
		outer + " -f /dev/null new-session -d -x 160 -y 8 'env -u TMUX " + inner + " -f " + s.path("home/.tmux.conf") +
			" new-session sleep\\ 600'")
	s.t.Cleanup(func() { s.shell(inner + " kill-server; " + outer + " kill-server") })
	free := regexp.MustCompile(`\b\d+ of \d+ GPUs free: `)
	for deadline := time.Now().Add(need.Patience); ; time.Sleep(100 * time.Millisecond) { // it runs beside tmux
		screen, _ := s.shell(outer + " capture-pane -p")
		if free.MatchString(screen) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the screen with tmux is\n%s", screen)
		}
	}
	motd, _ := s.shell("curl -fsm2 https://gpu.example.org/status.txt | head -2")
	if first, second, _ := strings.Cut(motd, "\n"); !free.MatchString(first) || !strings.HasPrefix(second, "as of ") {
		s.t.Errorf("whoever logs in reads %q", motd)
	}
}

func cannot(command string) string {
	for _, r := range reasons() {
		if strings.Contains(command, r[0]) {
			return r[1]
		}
	}
	return ""
}

// TestReasonsNameExistingTests: a reason without a command, or that names a test that
// does not exist, is old.
func TestReasonsNameExistingTests(t *testing.T) {
	tests := testNames(t)
	var all strings.Builder
	for page, m := range manuals() {
		if m.by != "" && !tests[m.by] {
			t.Errorf("%s is said to be run by %s, and there is no such test", page, m.by)
		}
	}
	for _, page := range pagesWithCommands(t) {
		all.WriteString(strings.Join(shellLines(t, page), "\n") + "\n")
	}
	for _, r := range reasons() {
		if !strings.Contains(all.String(), r[0]) {
			t.Errorf("no page shows %q any more", r[0])
		}
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(r[1], -1) {
			if !tests[name] {
				t.Errorf("%q: there is no %s", r[0], name)
			}
		}
	}
}

// testNames are the names of all tests of the project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range test.FindAllStringSubmatch(mustReadFile(t, path), -1) {
			names[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// careManual is docs/care.md. What it types backs up a board, restores it on an empty machine, and renames and
// removes a node.
func careManual() manual {
	at := time.Now().UTC().Add(time.Minute).Truncate(time.Second).Format(time.RFC3339)
	restored := false
	return manual{
		setup: func(s *sandbox) {
			s.board()
			s.write("srv/gpuboard/state/keys/gpu01.pub", "ssh-ed25519 AAAA gpu01\n")
			s.env = append(s.env, "GPUBOARD_TO=file://"+s.path("srv/gpuboard/data"))
		},
		before: func(s *sandbox, command string) {
			switch {
			case strings.HasPrefix(command, "flock "):
				s.typed("gpuboard generate --now " + at)
				s.must(os.CopyFS(s.path("backed-up"), os.DirFS(s.path("srv/gpuboard/site"))))
			case strings.HasPrefix(command, "tar -x"):
				s.must(os.RemoveAll(s.path("srv/gpuboard")))
				s.must(os.RemoveAll(s.path("etc/gpuboard")))
				restored = true
			case restored:
				restored = false
				s.typed("gpuboard generate --now " + at)
				s.sameBoard("backed-up", "srv/gpuboard/site")
			case strings.HasPrefix(command, "rm ") && strings.Contains(command, "drop/gpu11"):
				s.pushed("srv/gpuboard/data/drop/gpu11")
				s.typed("gpuboard generate")
				s.shows("gpu11")
			}
		},
		after: func(s *sandbox) {
			s.typed("gpuboard generate --now " + time.Now().UTC().Add(25*time.Hour).Format(time.RFC3339))
			if names := hostNames(s.boardIn("srv/gpuboard/site")); !slices.Equal(names, []string{"gpu02"}) {
				s.t.Errorf("a day after gpu11 was removed, the board has %q", names)
			}
		},
	}
}

// boardIn reads the board of a site.
func (s *sandbox) boardIn(site string) boardJSON {
	s.t.Helper()
	var b boardJSON
	s.must(json.Unmarshal(s.logged(s.path(site+"/api/v1/board.json")), &b))
	return b
}

// sameBoard wants the pages and data of two sites to be the same, byte for byte.
func (s *sandbox) sameBoard(one, other string) {
	s.t.Helper()
	var files []string
	for _, pattern := range []string{"*.html", "*.txt", "*.json", "*.ics", "api/v1/*.json", "api/v1/hosts/*.json",
		"api/v1/history/*", "hosts/*/index.html", "users/*/index.html", "bookings/index.html", "history/index.html"} {
		found, err := filepath.Glob(filepath.Join(s.path(one), pattern))
		s.must(err)
		files = append(files, found...)
	}
	if len(files) < 20 {
		s.t.Fatalf("the site that was backed up has the files %q", files)
	}
	for _, file := range files {
		name, err := filepath.Rel(s.path(one), file)
		s.must(err)
		if string(s.logged(file)) != string(s.logged(filepath.Join(s.path(other), name))) {
			s.t.Errorf("%s is not what it was before the restore", name)
		}
	}
}
