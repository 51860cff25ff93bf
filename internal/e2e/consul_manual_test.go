package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

// testDatacenters reads two datacenters that are joined over the WAN: each is a group of the board. One is cut off: its
// hosts stay as they were, and the other goes on, with its leader. A third that joins is found.
func testDatacenters(h *house) {
	t, east := h.t, *h
	join := func(datacenter string) *house {
		other := *h
		other.consul = consultest.Start(t,
			consultest.Options{Datacenter: datacenter, Node: "in-" + datacenter, JoinWAN: h.consul})
		return &other
	}
	west := join("west")
	east.enter("wide", "gpu01")
	west.enter("wide", "gpu11", "gpu12")
	p := h.start("generate", "--data", h.data, "--site", h.site, "--state", h.site+"-state", "--hosts-from", "consul",
		"--watch",
		"--interval", "1s", "--leader", "--consul-service", "wide", "--consul-datacenters", "*")
	groups := func(want ...string) func(boardJSON) bool {
		return func(b boardJSON) bool {
			var got []string
			for _, host := range b.Hosts {
				got = append(got, host.Group+" "+host.Name)
			}
			return slices.Equal(got, want)
		}
	}
	h.shows("two groups", groups("east gpu01", "west gpu11", "west gpu12"))
	consultest.Eventually(t, within, func() error { // it is written last
		front, err := os.ReadFile(filepath.Join(h.site, "index.html"))
		for _, name := range []string{"east", "west"} {
			if err == nil && !regexp.MustCompile(`>\s*`+name+`\s*<`).Match(front) {
				err = fmt.Errorf("the front page has no group %s", name)
			}
		}
		return err
	})

	west.consul.Stop()
	east.enter("wide", "gpu02")
	h.run(0, "collect", "--host", "gpu01", "--spool", filepath.Join(h.dir, "spool"), "--nvidia-smi", h.smi)
	h.run(0, "publish", "--host", "gpu01", "--spool", filepath.Join(h.dir, "spool"), "--to", "file://"+h.data)
	all := groups("east gpu01", "east gpu02", "west gpu11", "west gpu12")
	h.shows("east's news beside west's last known hosts",
		func(b boardJSON) bool { return all(b) && b.Hosts[0].State == "up" })
	says := regexp.MustCompile(`datacenter west did not answer .*; the last known 2 hosts are shown, as they were \d+`)
	consultest.Eventually(t, within, func() error {
		health, err := os.ReadFile(filepath.Join(h.site, "health.json"))
		if err == nil && !says.Match(health) {
			err = fmt.Errorf("no word of west and how old its hosts are:\n%s", health)
		}
		return err
	})

	north := join("north")
	north.enter("wide", "gpu21")
	h.shows("a third group", groups("east gpu01", "east gpu02", "north gpu21", "west gpu11", "west gpu12"))
	for _, other := range []*house{&east, north} {
		pair, _, err := other.consul.Admin().KV().Get("gpuboard/leader", nil)
		h.must(err)
		if leads := pair != nil && pair.Session != ""; leads != (other == &east) {
			t.Errorf("%s has a leader: %v", other.consul.Address, leads)
		}
	}
	if n := strings.Count(p.String(), "leading: this generator writes the site"); n != 1 {
		t.Errorf("it became the leader %d times:\n%s", n, p)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("asked to end, it exits with %d:\n%s", code, p)
	}
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// testManual runs every command of docs/consul.md as it stands there, but below
// a directory of the test, and looks for tokens where they should not be.
func testManual(h *house) {
	t := h.t
	manual, err := os.ReadFile("docs/consul.md")
	h.must(err)
	root, err := filepath.Abs(".")
	h.must(err)
	bin := filepath.Join(h.dir, "bin")
	h.must(os.Mkdir(bin, 0o755))
	for name, program := range map[string]string{"gpuboard": h.program, "nvidia-smi": h.smi,
		"consul": consultest.Program(t)} {
		h.must(os.Symlink(program, filepath.Join(bin, name)))
	}
	h.data, h.site = filepath.Join(h.dir, "srv/gpuboard/data"), filepath.Join(h.dir, "srv/gpuboard/site")
	h.must(os.MkdirAll(filepath.Join(h.data, "drop"), 0o755))
	h.must(os.Mkdir(filepath.Join(h.dir, "etc"), 0o755))

	var output bytes.Buffer
	command := func(script string) *exec.Cmd {
		script = strings.NewReplacer("/etc/gpuboard", h.dir+"/etc/gpuboard", "/srv/gpuboard",
			h.dir+"/srv/gpuboard").Replace(script)
		c := exec.Command("sh", "-euc", script)
		c.Dir = root
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CONSUL_HTTP_ADDR="+h.consul.Address,
			"HOME="+h.dir,
			"XDG_STATE_HOME="+h.dir, "GPUBOARD_SPOOL="+filepath.Join(h.dir, "spool"))
		if strings.Contains(script, "consul acl") {
			c.Env = append(c.Env, "CONSUL_HTTP_TOKEN="+consultest.ManagementToken)
		}
		return c
	}
	t.Cleanup(func() { _ = command("gpuboard check kill").Run() })
	blocks := shellBlock.FindAllSubmatch(manual, -1)
	if len(blocks) < 8 {
		t.Fatalf("docs/consul.md has %d blocks of commands", len(blocks))
	}
	shown := false
	for _, block := range blocks {
		script := string(block[1])
		if !strings.HasPrefix(script, "# runs until it is stopped") {
			out, err := command(script).CombinedOutput()
			// The check is critical until the loop has reported and Consul's servers know it.
			for end := time.Now().Add(need.Patience); bytes.Contains(out, []byte("[consul:critical]")) &&
				time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
				out, err = command(script).CombinedOutput()
			}
			output.Write(out)
			if err != nil {
				t.Fatalf("%v, from\n%s\n%s", err, script, out)
			}
		} else {
			h.must(os.RemoveAll(h.site))
			p := h.startCommand(command(strings.Replace(script, "gpuboard generate", "exec gpuboard generate", 1)))
			h.shows("gpu01", func(b boardJSON) bool {
				return slices.Equal(hostNames(b), []string{"gpu01"}) && b.Hosts[0].State == "up"
			})
			shown = true
			if code := p.end(syscall.SIGTERM); code != 0 {
				t.Errorf("exit %d, from\n%s\n%s", code, script, p)
			}
			output.WriteString(p.String())
		}
	}
	if !shown {
		t.Error("the manual never shows the board")
	}
	// The example of a configuration says the same as the flags.
	config := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindSubmatch(manual)
	h.must(
		os.WriteFile(filepath.Join(h.dir, "gpuboard.yml"),
			bytes.ReplaceAll(config[1], []byte("/srv/gpuboard"), []byte(h.dir+"/srv/gpuboard")), 0o644))
	export := "export CONSUL_HTTP_TOKEN_FILE=/etc/gpuboard/node.token\n"
	print := func(args string) map[string]any {
		t.Helper()
		out, err := command(export + "gpuboard register --host gpu01 --json " + args).Output()
		h.must(err)
		var v map[string]any
		h.must(json.Unmarshal(out, &v))
		return v
	}
	flags := regexp.MustCompile(`(?ms)^gpuboard check gpu01 (--to.*?jobs')`).FindSubmatch(manual)
	byFlags := print(strings.ReplaceAll(string(flags[1]), "--register ", ""))
	if d := cmp.Diff(byFlags, print("--config "+filepath.Join(h.dir, "gpuboard.yml"))); d != "" ||
		byFlags["title"] != "Vision box" {
		t.Errorf("flags and configuration of the manual differ:\n%s", d)
	}

	// A token that may not: no use in trying again, and not a trace of it.
	canary := "11111111-2222-3333-4444-canary000000"
	for _, args := range []string{"register --host gpu01", "deregister --host gpu01",
		"generate --data /srv/gpuboard/data --site /srv/gpuboard/site --state /srv/gpuboard/state --hosts-from consul"} {
		c := command("export CONSUL_HTTP_TOKEN=" + canary + "\ngpuboard " + args)
		out, err := c.CombinedOutput()
		output.Write(out)
		if !strings.Contains(string(out), "403") {
			t.Errorf("gpuboard %s with a wrong token: %v\n%s", args, err, out)
		}
		if code := c.ProcessState.ExitCode(); strings.HasPrefix(args, "register") && code != 2 ||
			strings.HasPrefix(args, "generate") && code != 3 {
			t.Errorf("gpuboard %s with a wrong token: exit %d\n%s", args, code, out)
		}
	}
	loop := h.startCommand(
		command(
			"export CONSUL_HTTP_TOKEN=" + canary +
				"\nexec gpuboard run --host gpu01 --register --to file:///srv/gpuboard/data"))
	h.says(loop, "403")
	if code := loop.end(syscall.SIGTERM); code != 0 {
		t.Errorf("with a wrong token the loop exits with %d:\n%s", code, loop)
	}
	output.WriteString(loop.String())
	secrets := [][]byte{[]byte(canary), []byte(consultest.ManagementToken)}
	for _, file := range []string{"node.token", "web.token"} {
		token, err := os.ReadFile(filepath.Join(h.dir, "etc/gpuboard", file))
		h.must(err)
		if len(bytes.TrimSpace(token)) != 36 {
			t.Fatalf("%s holds %d bytes", file, len(token))
		}
		secrets = append(secrets, bytes.TrimSpace(token))
	}
	look := func(where string, data []byte) {
		for _, secret := range secrets {
			if bytes.Contains(data, secret) {
				t.Errorf("there is a token in %s", where)
			}
		}
	}
	look("the output", output.Bytes())
	h.must(filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".token" {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, data)
		return err
	}))
}
