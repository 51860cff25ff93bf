package setup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/costtest"
)

func olderOf(t testing.TB, text string) (*hostList, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return readHosts(path, "board")
}

func TestHostsOfAnotherBoard(t *testing.T) {
	if _, err := readHosts(filepath.Join(t.TempDir(), "none"), "board"); err == nil {
		t.Error("a file that is not there passes")
	}
	for name, text := range map[string]string{
		"nothing": "", "comments": "# nobody\n\n", "no hosts": "{}", "cut": `{"gpu01": `, "words": "these are words\n",
		"wrong nodes": `{"Nodes": 3}`, "numbers": `[1, 2]`, "large": strings.Repeat("gpu01\n", 1<<18),
	} {
		if o, err := olderOf(t, text); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for _, c := range []struct {
		name, text string
		hosts      []inventory.Entry
		unnamed    []string
		refused    int
		compat     string
	}{
		{"hosts.txt",
			"gpu01\n# an old one\n192.168.0.2\n\nhttp://gpu02.lab.example:8043/\nGPU03.lab.example  # of the lab\ngpu01\n../etc\ngpu03.other.example\n192.168.0.2\n",
			[]inventory.Entry{{Name: "gpu01"}, {Name: "gpu02", Address: "gpu02.lab.example"},
				{Name: "gpu03", Address: "gpu03.lab.example"}, {Name: "gpu03.other.example"}}, []string{"192.168.0.2"},
			1, ""},
		{"hosts.json", `{"gpu01": "gpu01.lab.example", "gpu02": "gpu02"}`,
			[]inventory.Entry{{Name: "gpu01", Address: "gpu01.lab.example"}, {Name: "gpu02"}}, nil, 0, ""},
		{"states",
			`{"gpu01": {"data": [{"gpu_data": {"gpu:0": {}}}, {"gpu_data": {"gpu:0": {}, "gpu:1": {}}}], "ip_address": "10.0.0.1"}, "gpu_02": {"data": []}}`,
			[]inventory.Entry{{Name: "gpu01", Address: "10.0.0.1", GPUs: 2}}, nil, 1, "vesta"},
		{"get-status",
			`{"Nodes": [{"hostname": "gpu01", "ips": [["eno1", "10.0.0.1"]], "gpus": [{}, {}, {}]}, {"hostname": "gpu02", "status": false, "gpus": []}]}`,
			[]inventory.Entry{{Name: "gpu01", Address: "10.0.0.1", GPUs: 3}, {Name: "gpu02"}}, nil, 0,
			"gpu-cluster-monitor"},
		{"cluster_status",
			`[{"hostname": "gpu01", "gpus": [{}]}, {"hostname": "10.0.0.9", "error": "Connection timeout"}]`,
			[]inventory.Entry{{Name: "gpu01", GPUs: 1}}, []string{"10.0.0.9"}, 0, "nvgpu"},
		{"config.yml",
			"# ours\nweb_port: 8042\nrpc_timeout: 2\nhosts:\n  - gpu01\n  - gpu02.lab.example # new\n  - 10.0.0.3\n",
			[]inventory.Entry{{Name: "gpu01"}, {Name: "gpu02", Address: "gpu02.lab.example"}}, []string{"10.0.0.3"}, 0,
			""},
		{"config.yml of another editor",
			"hosts:   # all\r\n\r\n- \"gpu01\"\r\n# - gpu02\r\n- 'gpu03'\r\n- {name: gpu04}\r\nweb_port: 1\r\n  - gpu05\r\n",
			[]inventory.Entry{{Name: "gpu01"}, {Name: "gpu03"}}, nil, 1, ""},
		{"config.yml in one line", "hosts: [gpu01, gpu02]\n", []inventory.Entry{{Name: "gpu01"}, {Name: "gpu02"}}, nil,
			0, ""},
		{"nvgpu_master.cfg",
			"AGENTS = [\n  'self', # node01\n  'http://node02:1080',\n  # 'http://node03:1080', ] is away\n  \"http://10.0.0.4:1080\",\n]\n",
			[]inventory.Entry{{Name: "node02"}}, []string{"10.0.0.4"}, 1, "nvgpu"},
	} {
		o, err := olderOf(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.Equal(o.hosts, c.hosts) || !slices.Equal(o.unnamed, c.unnamed) || len(o.refused) != c.refused ||
			o.compat != c.compat {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

// TestSettingsOfAnotherBoard: what its configuration says beside the hosts.
func TestSettingsOfAnotherBoard(t *testing.T) {
	const path = ":8500/v1/catalog/service/"
	for text, want := range map[string]map[string]string{
		"hosts: [a]\nweb_port: 8042 # ours\n":  {"listen": "127.0.0.1:8042"},
		"hosts: [a]\nweb_port: 80420000\n":     {},
		"hosts: [a]\nrpc:\n  web_port: 8042\n": {},
		`{"CONSUL_SERVICE_URI": "http://localhost` + path +
			`gpu-servers"}`: {"consul.enabled": "true", "consul.service": "gpu-servers"},
		`{"CONSUL_SERVICE_URI": "https://consul.lab.example:8501/v1/health/service/gpu?dc=paris&dc=lyon&tag=cuda&token=s3cret"}`: {
			"consul.enabled": "true", "consul.service": "gpu", "consul.datacenters": "paris, lyon",
			"consul.tags": "cuda", "": "https://consul.lab.example:8501"},
	} {
		l, err := olderOf(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if l.consul != "" {
			l.settings[""] = l.consul
		}
		if !maps.Equal(l.settings, want) {
			t.Errorf("%s: %v", text, l.settings)
		}
	}
	for _, uri := range []string{"", "http://localhost:8500/v1/catalog/nodes", "localhost" + path + "gpu",
		"http://a;b" + path + "gpu", "http://localhost" + path + "a/b", `http://%zz`} {
		if l, err := olderOf(t, `{"CONSUL_SERVICE_URI": "`+uri+`"}`); err == nil {
			t.Errorf("%s: %+v", uri, l)
		}
	}
}

// TestHostileListsCostLittle: lists that nest, or that mean each other, cost memory by their length.
func TestHostileListsCostLittle(t *testing.T) {
	aliases := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nhosts: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
	for _, text := range []string{
		"hosts: " + strings.Repeat("[", 10_000), "hosts:\n" + strings.Repeat("  - [", 5_000),
		"hosts: " + strings.Repeat("{a: ", 5_000),
		strings.Repeat("# nothing\n", 2_000) + aliases,
	} {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		costtest.Check(t, len(text), 128, func() {
			if l, err := readHosts(path, "board"); err == nil && len(l.hosts) > 0 {
				t.Errorf("%.40q: %+v", text, l.hosts)
			}
		})
	}
	if l, err := readHosts("/dev/zero", "board"); err == nil {
		t.Errorf("/dev/zero: %+v", l)
	}
}

// TestInventoriesThatAreRefused: which hosts an Ansible inventory has is for Ansible to say.
// It answers with the command in the hint.
func TestInventoriesThatAreRefused(t *testing.T) {
	const refused = "is an Ansible inventory"
	for text, want := range map[string][2]string{
		"[lab]\ngpu01\n[web]\nserver\n": {refused,
			" all --list-hosts | sed 1d > names.txt && gpuboard init web board --from names.txt"},
		"[web]\nserver\n\n[rpcservers]\ngpu01 ansible_host=10.0.0.1\n": {refused,
			" rpcservers --list-hosts | sed 1d > names.txt"},
		"[gpunodes]  # all of them\ngpu[01:16]\n": {refused,
			" gpunodes --list-hosts | sed 1d"},
		"all:\n  children:\n    gpunodes:\n      hosts:\n        gpu01:\n": {refused, " gpunodes --list-hosts"},
		"a:\n  hosts: {gpu01: {ansible_host: 10.0.0.1}}\n":                 {refused, " all --list-hosts"},
		"version: '3'\nservices:\n  web:\n    image: nginx\n": {"names no host",
			"config.yml, nvgpu_master.cfg"},
		"all: {hosts: {gpu01: {}, gpu02: {}}}\n":                         {refused, " all --list-hosts"},
		"gpu01 ansible_host=10.0.0.1\n":                                  {refused, " all --list-hosts"},
		`{"_meta": {"hostvars": {}}, "all": {"children": ["gpunodes"]}}`: {refused, " gpunodes --list-hosts"},
		"AGENTS = ['self']\n":                                            {"names no host; left out: self, the machine of the master", ""},
		"gpu 01\n":                                                       {"names no host; left out: gpu 01: one name on a line", ""},
	} {
		l, err := olderOf(t, text)
		if err == nil {
			t.Errorf("%q: %+v", text, l)
			continue
		}
		if e := failure.Explain(err); !strings.Contains(err.Error(), want[0]) || !strings.Contains(e.Hint, want[1]) ||
			e.Exit != failure.ExitUsage {
			t.Errorf("%q: %v, hint %s", text, err, e.Hint)
		}
	}
}

// FuzzHostsOfAnotherBoard: whatever the list holds, the configuration that is
// made of it can be read, and holds those hosts and no other setting.
func FuzzHostsOfAnotherBoard(f *testing.F) {
	for _, seed := range []string{
		"hosts: [a, b]\n", "[lab]\na ansible_host=x\n", "all:\n  hosts:\n    a: {ansible_host: x}\n",
		"AGENTS = ['http://a:1']", "<?php $HOSTS = ['a' => 'b']; $SHORT_GPU_NAMES = ['c: d' => '#'];",
		"gpu01\n10.0.0.1\n", "http://gpu02.lab.example:8043/\n",
		`{"a": "b"}`, `{"Nodes": [{"hostname": "a", "ips": [["x", "y"]]}]}`,
		`[{"hostname": "a\n  - name: b", "gpus": [1]}]`, `{"a": {"ip_address": "x: y\n"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := olderOf(t, text)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), configFile)
		if err := os.WriteFile(path, []byte(o.config("list")), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadFile(path, noVariables)
		if err != nil {
			t.Fatalf("%q makes\n%s\n%v", text, o.config("list"), err)
		}
		if len(cfg.Hosts) != len(o.hosts) {
			t.Fatalf("%q: %d hosts in, %d out", text, len(o.hosts), len(cfg.Hosts))
		}
		for i, h := range cfg.Hosts {
			if name, err := snapshot.ParseHost(h.Name); err != nil || name != o.hosts[i].Name {
				t.Fatalf("%q: %q (%v)", text, h.Name, err)
			}
		}
	})
}
