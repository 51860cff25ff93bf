package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/config"
	"gpuboard/internal/serve"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/internal/testenv/sshtest"
)

// A trial is the program in a directory of its own, with one setting.
type trial struct {
	t          *testing.T
	dir        string
	key, value string
	now        time.Time
	env        map[string]string
	comments   string
	stderr     func(line string)
	heard      func(request string) // by Consul
}

func newTrial(t *testing.T, key, value string) *trial {
	l := &trial{t: t, dir: t.TempDir(), key: key, now: sitetest.Now, stderr: func(string) {}}
	l.value = strings.ReplaceAll(value, "DIR", l.dir)
	l.env = map[string]string{
		"HOME": l.dir, "XDG_STATE_HOME": l.dir, "GPUBOARD_TIMEZONE": "UTC", "GPUBOARD_NO_HELP": "true",
		"GPUBOARD_HOST": "gpu01", "GPUBOARD_PS": "fake-ps",
		"GPUBOARD_DATA": l.dir + "/data", "GPUBOARD_SITE": l.dir + "/site", "GPUBOARD_STATE": l.dir + "/state",
		"GPUBOARD_SPOOL": l.dir + "/spool",
	}
	all := config.Keys()
	l.env[config.Among(all, key).Env()] = l.value
	return l
}

// set gives another setting a value, unless that is the one on trial.
func set(l *trial, variable, value string) {
	if config.Among(config.Keys(), l.key).Env() != variable {
		l.env[variable] = value
	}
}

func (l *trial) app(stdout, stderr io.Writer, args ...string) *app {
	return &app{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, args: args,
		now: func() time.Time { return l.now }, getenv: func(name string) string { return l.env[name] }}
}

func (l *trial) run(args ...string) ran { return l.runWith(l.t.Context(), args...) }

func (l *trial) runWith(ctx context.Context, args ...string) ran {
	l.t.Helper()
	var stdout bytes.Buffer
	stderr := &watcher{line: l.stderr}
	code := l.app(&stdout, stderr, args...).run(ctx)
	l.t.Logf("%s ends with %d: %s", strings.Join(args, " "), code, stderr.all.String())
	return ran{code, stdout.String(), stderr.all.String()}
}

// collect runs a command of a node that has the capture's GPUs.
func (l *trial) collect(args ...string) ran {
	l.t.Helper()
	l.t.Setenv("GPUBOARD_FAKE_SMI", "testdata/node/seven.xml")
	l.t.Setenv("GPUBOARD_FAKE_PS", "testdata/node/seven.ps")
	return l.run(args...)
}

func (l *trial) write(name, content string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *trial) read(name string) string {
	l.t.Helper()
	content, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(content)
}

// files are those in the directory that match a pattern.
func (l *trial) files(pattern string) string {
	list, err := filepath.Glob(filepath.Join(l.dir, pattern))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range list {
		list[i] = strings.TrimPrefix(list[i], l.dir+"/")
	}
	return strings.Join(list, " ")
}

func (l *trial) bundle(name string) *snapshot.Bundle {
	l.t.Helper()
	b, err := snapshot.DecodeBundle(strings.NewReader(l.read(name)))
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// found is what the group of a pattern matches, "" for nothing.
func found(pattern, text string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func collected(pattern string) func(*trial) string {
	return func(l *trial) string { return found(pattern, l.collect("collect", "--json").stdout) }
}

// pushed is whether a push arrives in a drop box, which accepts the key in gpu01 and whose own key is in known.
func pushed(l *trial) string {
	says, stop := l.receive()
	defer stop()
	address, key := found(`receiving on (\S+);`, says), found(`echo '(.*?)'`, says)
	l.write("known", key+"\n")
	l.write("unknown", "")
	sshtest.WriteKey(l.t, filepath.Join(l.dir, "gpu02"), "ed25519", "")
	set(l, "GPUBOARD_IDENTITY", l.dir+"/gpu01")
	set(l, "GPUBOARD_KNOWN_HOSTS", l.dir+"/known")
	set(l, "GPUBOARD_PUSH_TIMEOUT", "1m")
	l.env["GPUBOARD_TO"] = "sftp://gpu01@" + address + "/"
	l.collect("collect")
	if l.run("publish").code != 0 {
		return ""
	}
	if got := l.bundle("data/drop/gpu01/latest.json.gz").Host; got != "gpu01" {
		l.t.Errorf("what arrives is of %s", got)
	}
	return "arrives"
}

// receive runs the drop box until stop is called. says is what it says when it listens.
func (l *trial) receive() (says string, stop func()) {
	l.t.Helper()
	set(l, "GPUBOARD_LISTEN", "127.0.0.1:0")
	l.env["GOMAXPROCS"] = "2" // it leaves the test's threads alone
	l.write("data/drop/.keep", "")
	key := sshtest.WriteKey(l.t, filepath.Join(l.dir, "gpu01"), "ed25519", "")
	l.write("state/keys/gpu01.pub", string(ssh.MarshalAuthorizedKey(key)))
	ctx, cancel := context.WithCancel(l.t.Context())
	lines, ended := make(chan string, 100), make(chan ran, 1)
	server := *l
	server.stderr = func(line string) { lines <- line }
	go func() { ended <- server.runWith(ctx, "receive") }()
	select {
	case says = <-lines:
	case got := <-ended:
		l.t.Fatalf("receive ends with %d: %s", got.code, got.stderr)
	}
	return says, func() {
		cancel()
		<-ended
	}
}

// inSite is what a file of the site has after a generation from the lab.
func inSite(name, pattern string) func(*trial) string {
	return func(l *trial) string {
		l.lab()
		if got := l.run("generate"); got.code != 0 && got.code != 3 {
			l.t.Fatalf("generate ends with %d: %s", got.code, got.stderr)
		}
		return found(pattern, l.read("site/"+name))
	}
}

func inPublic(name, pattern string) func(*trial) string {
	return func(l *trial) string {
		l.env["GPUBOARD_PUBLIC_OUT"] = l.dir + "/public"
		l.lab()
		l.run("generate")
		return found(pattern, l.read("public/"+name))
	}
}

// made are the files that match a pattern after a generation.
func made(pattern string) func(*trial) string {
	return func(l *trial) string {
		l.lab()
		l.run("generate")
		return l.files(pattern)
	}
}

func hostsOf(l *trial) string {
	l.lab()
	l.run("generate")
	var doc struct{ Hosts []struct{ Name string } }
	if err := json.Unmarshal([]byte(l.read("site/api/v1/hosts.json")), &doc); err != nil {
		l.t.Fatal(err)
	}
	var names []string
	for _, h := range doc.Hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, " ")
}

// A served is an answer of the web server.
type served struct{ code, body string }

// answer asks the web server as somebody, by a header of a proxy and by a password.
func (l *trial) answer(path, login string) served {
	l.t.Helper()
	a := l.app(io.Discard, io.Discard)
	c := a.serveCommand()
	cfg, err := a.load(c)
	if err != nil {
		l.t.Fatal(err)
	}
	o, err := a.serveOptions(l.t.Context(), cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	h, err := serve.Handler(o)
	if err != nil {
		l.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if l.key != "trusted_proxy" {
		r.RemoteAddr = "127.0.0.1:4000"
	}
	if login != "" {
		r.Header.Set("X-User", login)
		r.SetBasicAuth(login, "secret")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return served{fmt.Sprint(w.Code), w.Body.String()}
}

// consul stands in for a Consul agent without hosts. What it returns tells what it was asked, one request a line.
func (l *trial) consul() (asked func() string) {
	var mu sync.Mutex
	var all strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		query := strings.ReplaceAll(r.URL.RawQuery, "+", " ")
		for code, sign := range map[string]string{"%3A": ":", "%20": " ", "%21": "!", "%3D": "="} {
			query = strings.ReplaceAll(query, code, sign)
		}
		request := fmt.Sprintf("%s %s?%s %s", r.Method, r.URL.Path, query, body)
		mu.Lock()
		fmt.Fprintln(&all, request)
		mu.Unlock()
		if l.heard != nil {
			l.heard(request)
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/session/"):
			fmt.Fprint(w, `{"ID": "11111111-1111-4111-8111-111111111111"}`)
		case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
			fmt.Fprint(w, "true")
		case r.URL.Path == "/v1/agent/self":
			fmt.Fprint(w, `{"Config": {"Datacenter": "dc1", "NodeName": "gpu01"}, "Member": {"Addr": "127.0.0.1"}}`)
		case strings.HasPrefix(r.URL.Path, "/v1/agent/checks"):
			fmt.Fprint(w, "{}")
		case strings.HasPrefix(r.URL.Path, "/v1/agent/service/") && r.Method == http.MethodGet:
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, "[]")
		}
	}))
	l.t.Cleanup(server.Close)
	l.t.Setenv("CONSUL_HTTP_ADDR", server.URL)
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

const boot = "11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

// lab writes the drops and the bookings of three hosts:
//
//	gpu01, for four hours:  0 lea's job at 10 %
//	                        1 idle, with 900 MiB of nobody
//	                        2 ci's job
//	                        3 idle, and booked by eva for three hours
//	                        4 kai's job, idle for one hour
//	                        5 mia's job, in a container
//	gpu02                   was heard of ten minutes ago
//	gpu03                   its clock is half a minute ahead
func (l *trial) lab() {
	l.t.Helper()
	l.write("data/comments.json", cmp.Or(l.comments, `{"gpu01": {"0": {"name": "zoe", "date": "2026-11-18 18:00"},
		"3": {"name": "eva", "from": "2026-11-20 06:42", "date": "2026-11-21 12:00"}}}`))
	l.drop("gpu01", l.now, 4*time.Hour, func(at time.Time) []gpuTrial {
		kai := 90
		if l.now.Sub(at) < time.Hour {
			kai = 0
		}
		return []gpuTrial{{20000, 10, "lea"}, {900, 0, ""}, {9000, 50, "ci"}, {4, 0, ""}, {9000, kai, "kai"},
			{9000, 50, "mia in a1b2c3d4"}}
	})
	free := func(time.Time) []gpuTrial { return []gpuTrial{{4, 0, ""}} }
	l.drop("gpu02", l.now.Add(-10*time.Minute), 0, free)
	l.drop("gpu03", l.now.Add(30*time.Second), 0, free)
}

// A gpuTrial is a GPU of the lab: its memory in use, its utilization, and who has a process that uses them, with the
// container if it runs in one.
type gpuTrial struct {
	used        int64
	utilization int
	user        string
}

// drop writes what a node has pushed at a moment: the newest snapshot, and samples of a time before.
func (l *trial) drop(host string, at time.Time, before time.Duration, gpus func(time.Time) []gpuTrial) {
	l.t.Helper()
	hours := map[time.Time][]snapshot.Sample{}
	var samples []snapshot.Sample
	var last *snapshot.Snapshot
	for minute := at.Add(-before); !minute.After(at); minute = minute.Add(time.Minute) {
		last = snapshotOf(host, minute, gpus(minute))
		samples = append(samples, last.Sample())
		hours[minute.Truncate(time.Hour)] = append(hours[minute.Truncate(time.Hour)], last.Sample())
	}
	raw, err := snapshot.EncodeBundle(
		&snapshot.Bundle{Host: host, BootID: boot, Snapshot: last, Samples: samples[max(0, len(samples)-15):]})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("data/drop/"+host+"/latest.json.gz", string(raw))
	for start, list := range hours {
		l.hour(host, start, list)
	}
}

func (l *trial) hour(host string, start time.Time, samples []snapshot.Sample) {
	l.t.Helper()
	raw, err := snapshot.EncodeHour(&snapshot.Hour{Host: host, BootID: boot, Start: start, Samples: samples})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(fmt.Sprintf("data/drop/%s/hour-%s-%s.jsonl.gz", host, start.Format("20060102T15"), boot[:8]), string(raw))
}

// remember generates at a time in the past, when somebody has a job on gpu01 for half an hour, and then now.
func (l *trial) remember(start time.Time, user string) {
	now := l.now
	for later := range 3 { // samples wait for some minutes before they are rolled up
		l.now = start.Add(time.Hour + time.Duration(later)*30*time.Minute)
		l.drop("gpu01", l.now, l.now.Sub(start), func(at time.Time) []gpuTrial {
			if at.Before(start.Add(30 * time.Minute)) {
				return []gpuTrial{{9000, 90, user}}
			}
			return []gpuTrial{{4, 0, ""}}
		})
		l.run("generate")
	}
	l.now = now
	l.lab()
	l.run("generate")
}

// hours are those of somebody in a window of the history, of a kind such as gpu_hours; "" for somebody who is not there.
func (l *trial) hours(window, user, kind string) string {
	l.t.Helper()
	var doc struct {
		Windows []struct {
			Name  string
			Users []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(l.read("site/api/v1/history/users.json")), &doc); err != nil {
		l.t.Fatal(err)
	}
	for _, w := range doc.Windows {
		for _, u := range w.Users {
			if w.Name == window && u["name"] == user {
				return fmt.Sprint(math.Round(u[kind].(float64)*100) / 100)
			}
		}
	}
	return ""
}

// older writes the files of a node that runs the older scripts, half a minute before now in UTC.
func (l *trial) older() {
	l.write("older/atlas_gpus.csv",
		"0, GPU-00000001-1111-4222-8333-000000000001, NVIDIA A100, 31200, 40960, 97, 50, 66, 2026/11/20 09:41:20.000\n"+
			"0, GPU-00000001-1111-4222-8333-000000000001, NVIDIA A100, 31208, 40960, 98, 50, 66, 2026/11/20 09:41:40.000\n")
	l.write("older/atlas_processes.csv",
		"2026/11/20 09:41:40.000, GPU-00000001-1111-4222-8333-000000000001, 31100, python, 4101\n")
}

func snapshotOf(host string, at time.Time, gpus []gpuTrial) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: host, BootID: boot, Seq: uint64(at.Unix() / 60),
		CollectedAt: snapshot.TimeOf(at), IntervalSeconds: 20,
		GPUsComplete: true, Processes: []snapshot.Process{}}
	for i, g := range gpus {
		uuid := fmt.Sprint("GPU-", i)
		if host != "gpu01" {
			uuid = fmt.Sprintf("GPU-%x-%d", host, i)
		}
		s.GPUs = append(s.GPUs,
			snapshot.GPU{Index: i, UUID: uuid, Name: "NVIDIA A100", Health: snapshot.HealthOK,
				MemoryTotal: new(int64(40960)),
				MemoryUsed:  new(g.used),
				Readings:    snapshot.Readings{UtilizationGPU: new(g.utilization), PowerDraw: new(100.0)}})
		if user, container, _ := strings.Cut(g.user, " in "); user != "" {
			s.Processes = append(s.Processes,
				snapshot.Process{GPU: i, GPUUUID: uuid, PID: 100 + i, Type: snapshot.Compute, User: user,
					UID:       new(int64(1000 + i)),
					Container: container, Program: "train.py", UsedMemory: new(g.used), Alive: new(true),
					StartedAt: &snapshot.Time{Time: at.Add(-24 * time.Hour)}})
		}
	}
	return s
}
