package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// An older is what another board's list of hosts says: its configuration, or
// what its server answers.
type older struct {
	hosts   []olderHost
	unnamed []string // addresses whose names nobody told
	titles  map[string]string
	refused []string // with the reason
	listen  string   // where its page was, "" if it does not say
	zone    string   // in which its page read the times of bookings, "" if it is not known
	zoneBy  string   // how that is known
}

type olderHost struct {
	name, address string
	gpus          int
}

// readOlder reads such a list, whatever form it has; self is this machine.
func readOlder(path, self string) (*older, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("reading the older board's hosts: %w", err), "")
	}
	if len(data) > config.MaxBytes {
		return nil, usagef("", "%s: %d bytes are too many for a list of hosts", path, len(data))
	}
	o := &older{}
	switch text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))); {
	case isPHP(text):
		o.php(text)
	case len(text) > 0 && (text[0] == '{' || text[0] == '[' && json.Valid(text)):
		err = o.json(text)
	case agentsList().Match(text):
		o.agents(text, self)
	case inventoryGroup().Match(text):
		o.inventory(string(text))
	case yamlHosts().Match(text):
		err = o.yaml(text)
	default:
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			if fields := strings.Fields(line); len(fields) == 1 {
				o.add(fields[0], "", 0)
			} else if len(fields) > 1 {
				o.refused = append(o.refused, snapshot.Text(line, 80)+": one name on a line")
			}
		}
	}
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("reading the older board's hosts: %s: %w", path, err), "")
	}
	o.besidePage(path)
	if len(o.hosts)+len(o.unnamed) == 0 && !isPHP(data) {
		return nil, usagef("hosts.txt, index.php, config.yml, nvgpu_master.cfg, an Ansible inventory, hosts.json, or what its server answers for /states/ or /get-status", "%s names no host", path)
	}
	return o, nil
}

// add takes one host by name, address or URL. A node calls itself by its short
// name, so that is the name here, unless two would share it.
func (o *older) add(where, address string, gpus int) {
	where = strings.TrimSpace(where)
	if u, err := url.Parse(where); err == nil && u.Host != "" {
		where = u.Hostname()
	} else if host, port, found := strings.Cut(where, ":"); found && strings.Trim(port, "0123456789") == "" {
		where = host
	}
	if _, err := netip.ParseAddr(where); err == nil {
		if !slices.Contains(o.unnamed, where) {
			o.unnamed = append(o.unnamed, where)
		}
		return
	}
	name, err := snapshot.ParseHost(where)
	if err != nil {
		o.refused = append(o.refused, err.Error())
		return
	}
	if short, _, long := strings.Cut(name, "."); long {
		if address == "" {
			address = name
		}
		if !o.has(short) {
			name = short
		}
	}
	if address != "" {
		if _, err := snapshot.ParseHost(address); err != nil || address == name {
			address = ""
		}
	}
	if !o.has(name) && len(o.hosts) < inventory.MaxHosts {
		o.hosts = append(o.hosts, olderHost{name, address, max(0, min(gpus, snapshot.MaxGPUs))})
	}
}

func (o *older) has(name string) bool {
	return slices.ContainsFunc(o.hosts, func(h olderHost) bool { return h.name == name })
}

// json reads what servers answer, and hosts.json:
//
//	{HOST: ADDRESS} or {HOST: {"ip_address": …, "data": [{"gpu_data": {"gpu:0": …}}]}}
//	{"Nodes": [{"hostname": …, "ips": [[interface, address]], "gpus": […]}]}, and that list alone
func (o *older) json(text []byte) error {
	type node struct {
		Hostname string            `json:"hostname"`
		IPs      [][]string        `json:"ips"`
		GPUs     []json.RawMessage `json:"gpus"`
	}
	var nodes []node
	if text[0] == '[' {
		if err := json.Unmarshal(text, &nodes); err != nil {
			return err
		}
	}
	var members map[string]json.RawMessage
	if text[0] == '{' {
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		if list, ok := members["Nodes"]; ok {
			if err := json.Unmarshal(list, &nodes); err != nil {
				return err
			}
			members = nil
		}
	}
	for _, n := range nodes {
		address := ""
		if len(n.IPs) > 0 && len(n.IPs[0]) == 2 {
			address = n.IPs[0][1]
		}
		o.add(n.Hostname, address, len(n.GPUs))
	}
	for _, name := range sorted(members) {
		var address string
		var state struct {
			Address string `json:"ip_address"`
			Data    []struct {
				GPUs map[string]json.RawMessage `json:"gpu_data"`
			} `json:"data"`
		}
		gpus := 0
		if json.Unmarshal(members[name], &address) != nil && json.Unmarshal(members[name], &state) == nil {
			address = state.Address
			if n := len(state.Data); n > 0 {
				gpus = len(state.Data[n-1].GPUs)
			}
		}
		o.add(name, address, gpus)
	}
	return nil
}

var (
	agentsList     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*AGENTS\s*=\s*\[`) })
	quotedWord     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'([^']*)'|"([^"]*)"`) })
	inventoryGroup = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[(rpcservers|gpunodes)\]\s*$`) })
	yamlHosts      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^hosts:`) })
)

// agents reads AGENTS = ['self', 'http://node02:1080'] out of a Python file.
func (o *older) agents(text []byte, self string) {
	_, list, _ := bytes.Cut(text, agentsList().Find(text))
	for line := range bytes.Lines(list) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		line, _, last := bytes.Cut(line, []byte("]"))
		for _, m := range quotedWord().FindAllSubmatch(line, -1) {
			word := string(m[1]) + string(m[2])
			if word == "self" {
				word = self
			}
			o.add(word, "", 0)
		}
		if last {
			return
		}
	}
}

// inventory reads the nodes of an Ansible inventory.
func (o *older) inventory(text string) {
	inside := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case strings.HasPrefix(fields[0], "["):
			inside = inventoryGroup().MatchString(fields[0])
		case inside:
			address := ""
			for _, f := range fields[1:] {
				if v, ok := strings.CutPrefix(f, "ansible_host="); ok {
					address = v
				}
			}
			o.add(fields[0], address, 0)
		}
	}
}

// yaml reads hosts: and web_port: of a config.yml.
func (o *older) yaml(text []byte) error {
	var file struct {
		Hosts []any `yaml:"hosts"`
		Port  int   `yaml:"web_port"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, h := range file.Hosts {
		o.add(fmt.Sprint(h), "", 0)
	}
	if file.Port > 0 && file.Port < 1<<16 {
		o.listen = fmt.Sprintf("127.0.0.1:%d", file.Port)
	}
	return nil
}

// config is the hosts as a part of gpuboard.yml.
func (o *older) config(from string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n# Hosts, from %s. More can be said of each:\n#    title: Vision box\n#    group: rack 4\n#    owner: vision\n#    note: no overnight jobs\n", snapshot.Text(from, 80))
	if len(o.hosts) > 0 {
		b.WriteString("hosts:\n")
	} else {
		b.WriteString("#hosts:\n")
	}
	for _, h := range o.hosts {
		fmt.Fprintf(&b, "  - name: %s\n", yamlName(h.name))
		if title := o.titles[h.name]; title != "" {
			fmt.Fprintf(&b, "    title: %s\n", yamlScalar(snapshot.Text(title, snapshot.MaxNameBytes)))
		}
		if h.address != "" {
			fmt.Fprintf(&b, "    address: %s\n", yamlName(h.address))
		}
		if h.gpus > 0 {
			fmt.Fprintf(&b, "    gpus: %d\n", h.gpus)
		}
	}
	for _, address := range o.unnamed {
		fmt.Fprintf(&b, "# What does this node call itself (hostname -s)?\n#  - name: NAME\n#    address: %s\n", address)
	}
	return b.String()
}

// yamlName writes a host's name so that nobody reads a number or a truth in it.
func yamlName(s string) string {
	if s[0] >= 'a' && s[0] <= 'z' && strings.ContainsAny(s, "0123456789.-") || strings.Count(s, ".") > 1 {
		return s
	}
	return "'" + s + "'"
}
