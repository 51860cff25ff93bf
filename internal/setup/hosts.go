package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// A hostList is what another board's list of hosts says: its configuration, or
// what its server answers.
type hostList struct {
	hosts    []host
	unnamed  []string // addresses whose names nobody told
	titles   map[string]string
	refused  []string // with the reason
	listen   string   // where its page was, "" if it does not say
	zone     string   // in which its page read the times of bookings, "" if it is not known
	zoneFrom string   // how that is known
	compat   string   // the system whose files may still be read by programs, for the setting compat
}

type host struct {
	name, address string
	gpus          int
}

// readHosts reads such a list in any of its forms; self is this machine.
func readHosts(path, self string) (*hostList, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, failure.Usage("", "reading the older board's hosts: %w", err)
	}
	if len(data) > config.MaxBytes {
		return nil, failure.Usage("", "%s: %d bytes are too many for a list of hosts", path, len(data))
	}
	l := &hostList{}
	switch text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))); {
	case isPHP(text):
		l.php(text)
	case len(text) > 0 && (text[0] == '{' || text[0] == '[' && json.Valid(text)):
		err = l.json(text)
	case matches(agentsBegin, text):
		l.compat = "nvgpu"
		l.agents(text, self)
	case matches(inventoryGroup, text):
		l.inventory(string(text))
	case matches(yamlHosts, text):
		err = l.yaml(text)
	default:
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			if fields := strings.Fields(line); len(fields) == 1 {
				l.add(fields[0], "", 0)
			} else if len(fields) > 1 {
				l.refused = append(l.refused, snapshot.Text(line, 80)+": one name on a line")
			}
		}
	}
	if err != nil {
		return nil, failure.Usage("", "reading the older board's hosts: %s: %w", path, err)
	}
	l.besidePage(path)
	if filepath.Base(path) == "hosts.txt" && l.zone == "" { // beside a PHP page it is another system's
		l.compat = "gpu-cluster-monitor"
	}
	if len(l.hosts)+len(l.unnamed) == 0 && !isPHP(data) {
		return nil, failure.Usage("hosts.txt, index.php, config.yml, nvgpu_master.cfg, an Ansible inventory, hosts.json, or what its server answers for /states/ or /get-status", "%s names no host", path)
	}
	return l, nil
}

// add takes one host by name, address or URL. A node calls itself by its short
// name, so that is the name here, unless two would share it.
func (l *hostList) add(where, address string, gpus int) {
	where = strings.TrimSpace(where)
	if u, err := url.Parse(where); err == nil && u.Host != "" {
		where = u.Hostname()
	} else if host, port, found := strings.Cut(where, ":"); found && strings.Trim(port, "0123456789") == "" {
		where = host
	}
	if _, err := netip.ParseAddr(where); err == nil {
		if !slices.Contains(l.unnamed, where) {
			l.unnamed = append(l.unnamed, where)
		}
		return
	}
	name, err := snapshot.ParseHost(where)
	if err != nil {
		l.refused = append(l.refused, err.Error())
		return
	}
	if short, _, long := strings.Cut(name, "."); long {
		if address == "" {
			address = name
		}
		if !l.has(short) {
			name = short
		}
	}
	if address != "" {
		if _, err := snapshot.ParseHost(address); err != nil || address == name {
			address = ""
		}
	}
	if !l.has(name) && len(l.hosts) < inventory.MaxHosts {
		l.hosts = append(l.hosts, host{name, address, max(0, min(gpus, snapshot.MaxGPUs))})
	}
}

func (l *hostList) has(name string) bool {
	return slices.ContainsFunc(l.hosts, func(h host) bool { return h.name == name })
}

// json reads what servers answer, and hosts.json:
//
//	{HOST: ADDRESS} or {HOST: {"ip_address": …, "data": [{"gpu_data": {"gpu:0": …}}]}}
//	{"Nodes": [{"hostname": …, "ips": [[interface, address]], "gpus": […]}]}, and that list alone
func (l *hostList) json(text []byte) error {
	type node struct {
		Hostname string            `json:"hostname"`
		IPs      [][]string        `json:"ips"`
		GPUs     []json.RawMessage `json:"gpus"`
	}
	var nodes []node
	if text[0] == '[' {
		l.compat = "nvgpu"
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
			members, l.compat = nil, "gpu-cluster-monitor"
		}
	}
	for _, n := range nodes {
		address := ""
		if len(n.IPs) > 0 && len(n.IPs[0]) == 2 {
			address = n.IPs[0][1]
		}
		l.add(n.Hostname, address, len(n.GPUs))
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var address string
		var state struct {
			Address string `json:"ip_address"`
			Data    []struct {
				GPUs map[string]json.RawMessage `json:"gpu_data"`
			} `json:"data"`
		}
		gpus := 0
		if json.Unmarshal(members[name], &address) != nil && json.Unmarshal(members[name], &state) == nil {
			address, l.compat = state.Address, "vesta"
			if n := len(state.Data); n > 0 {
				gpus = len(state.Data[n-1].GPUs)
			}
		}
		l.add(name, address, gpus)
	}
	return nil
}

// What begins each form of list.
const (
	agentsBegin    = `(?m)^\s*AGENTS\s*=\s*\[`
	inventoryGroup = `(?m)^\[(rpcservers|gpunodes)\]\s*$`
	yamlHosts      = `(?m)^hosts:`
)

// agents reads AGENTS = ['self', 'http://node02:1080'] out of a Python file.
func (l *hostList) agents(text []byte, self string) {
	list := text[regexp.MustCompile(agentsBegin).FindIndex(text)[1]:]
	quoted := regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
	for line := range bytes.Lines(list) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		line, _, last := bytes.Cut(line, []byte("]"))
		for _, m := range quoted.FindAllSubmatch(line, -1) {
			word := string(m[1]) + string(m[2])
			if word == "self" {
				word = self
			}
			l.add(word, "", 0)
		}
		if last {
			return
		}
	}
}

// inventory reads the nodes of an Ansible inventory.
func (l *hostList) inventory(text string) {
	inside := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case strings.HasPrefix(fields[0], "["):
			inside = matches(inventoryGroup, []byte(fields[0]))
		case inside:
			address := ""
			for _, f := range fields[1:] {
				if v, ok := strings.CutPrefix(f, "ansible_host="); ok {
					address = v
				}
			}
			l.add(fields[0], address, 0)
		}
	}
}

// yaml reads hosts: and web_port: of a config.yml.
func (l *hostList) yaml(text []byte) error {
	var file struct {
		Hosts []any `yaml:"hosts"`
		Port  int   `yaml:"web_port"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, h := range file.Hosts {
		l.add(fmt.Sprint(h), "", 0)
	}
	if file.Port > 0 && file.Port < 1<<16 {
		l.listen = fmt.Sprintf("127.0.0.1:%d", file.Port)
	}
	return nil
}

// config is the hosts as a part of gpuboard.yml.
func (l *hostList) config(from string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n# Hosts, from %s. More can be said of each:\n#    title: Vision box\n#    group: rack 4\n#    owner: vision\n#    note: no overnight jobs\n", snapshot.Text(from, 80))
	if len(l.hosts) > 0 {
		b.WriteString("hosts:\n")
	} else {
		b.WriteString("#hosts:\n")
	}
	for _, h := range l.hosts {
		fmt.Fprintf(&b, "  - name: %s\n", config.Quote(h.name))
		if title := l.titles[h.name]; title != "" {
			fmt.Fprintf(&b, "    title: %s\n", config.Quote(snapshot.Text(title, snapshot.MaxNameBytes)))
		}
		if h.address != "" {
			fmt.Fprintf(&b, "    address: %s\n", config.Quote(h.address))
		}
		if h.gpus > 0 {
			fmt.Fprintf(&b, "    gpus: %d\n", h.gpus)
		}
	}
	for _, address := range l.unnamed {
		fmt.Fprintf(&b, "# What does this node call itself (hostname -s)?\n#  - name: NAME\n#    address: %s\n", address)
	}
	return b.String()
}

func matches(pattern string, text []byte) bool { return regexp.MustCompile(pattern).Match(text) }
