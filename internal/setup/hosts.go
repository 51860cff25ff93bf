package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// A hostList is what another board's list of hosts says: its page, its configuration, a
// list of names, or what its server answers.
type hostList struct {
	path, dir string // of the list, and to set up
	hosts     []inventory.Entry
	unnamed   []string // addresses whose names are not known
	refused   []string // with the reason
	compat    string   // the system whose files may still be read by programs, for the setting compat
	consul    string   // the address of Consul, "" for that of this machine
	// settings are others that follow from the list, by name.
	settings map[string]string
	page
}

// readBounded reads a file or a pipe that is small enough for a list of hosts.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, config.MaxBytes+1))
	if err == nil && len(data) > config.MaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, config.MaxBytes)
	}
	return data, err
}

// readHosts reads such a list in any of its forms. dir is the directory to set up, for a hint.
func readHosts(path, dir string) (*hostList, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, failure.Usage("", "reading the older board's hosts: %w", err)
	}
	l := &hostList{path: path, dir: dir, settings: map[string]string{}}
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	for _, format := range []struct {
		sign string // in files of this format, and not in those of a later one
		read func(*hostList, []byte) error
	}{
		{`<\?php`, (*hostList).php},
		{`^\{\s*"(_meta|all)":\s*\{`, (*hostList).inventory},
		{`^(\{|\[\s*\{)`, (*hostList).json},
		{`(?m)^\s*AGENTS\s*=`, (*hostList).agents},
		{`(?m)^\s*\[[^\[\]\s]+\]\s*(#.*)?$|^\s+(hosts|children):\s*(\{|#|$)|^all:|\bansible_\w+\s*[:=]`,
			(*hostList).inventory},
		{`(?m)^[\w.-]+:(\s|$)`, (*hostList).yaml},
		{``, (*hostList).names},
	} {
		if regexp.MustCompile(format.sign).Match(text) {
			err = format.read(l, text)
			break
		}
	}
	if _, said := errors.AsType[*failure.Error](err); said {
		return nil, err
	}
	if err != nil {
		return nil, failure.Usage("", "reading the older board's hosts: %s: %w", path, err)
	}
	l.readPage(path)
	if filepath.Base(path) == "hosts.txt" && l.zone == "" { // beside a PHP page it is another system's
		l.compat = "gpu-cluster-monitor"
	}
	if len(l.hosts)+len(l.unnamed) == 0 && !isPHP(data) && l.settings["consul.service"] == "" {
		if len(l.refused) > 0 {
			return nil, failure.Usage("", "%s names no host; left out: %s", path, l.refused[0])
		}
		return nil, failure.Usage(
			"a list with a name on each line, index.php, hosts.json, fetch_stats_conf.json, config.yml, "+
				"nvgpu_master.cfg, or what its server answers for /states/, /get-status or /cluster_status",
			"%s names no host", path,
		)
	}
	return l, nil
}

func (l *hostList) names(text []byte) error {
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) == 1 {
			l.add(fields[0], "", 0)
		} else if len(fields) > 1 {
			l.refused = append(l.refused, snapshot.Text(line, 80)+": one name on a line")
		}
	}
	return nil
}

// inventory refuses an Ansible inventory by name.
func (l *hostList) inventory(text []byte) error {
	group := cmp.Or(string(regexp.MustCompile(`rpcservers|gpunodes`).Find(text)), "all") // which may have the GPUs
	hint := shell.Join("ansible", "-i", l.path, group, "--list-hosts") + " | sed 1d > names.txt && " +
		shell.Join("gpuboard", "init", Web, l.dir, "--from", "names.txt")
	return failure.Usage(hint, "%s is an Ansible inventory, of which Ansible itself knows the hosts", l.path)
}

// yamlHosts is the list hosts of a configuration in YAML: the rest of its line, and the lines below
// it that are no key of their own.
var yamlHosts = regexp.MustCompile(`(?m)^hosts:(.*(?:\n(?:[ \t\r#-].*)?)*)`)

// yaml reads a configuration with a list of hosts. It looks for that list alone, since a parser of YAML
// takes gigabytes of memory for a small file that is deep enough.
func (l *hostList) yaml(text []byte) error {
	webPort := regexp.MustCompile(`(?m)^web_port:[ \t]*([1-9]\d{0,4})[ \t\r]*(?:#.*)?$`)
	if port := webPort.FindSubmatch(text); port != nil {
		l.settings["listen"] = "127.0.0.1:" + string(port[1]) // where that page listens
	}
	found := yamlHosts.FindSubmatch(text)
	if found == nil {
		return nil
	}
	list := regexp.MustCompile(`(?m)(^|\s)#.*$`).ReplaceAllString(string(found[1]), "")
	list = strings.TrimSpace(list)
	separator := "\n"
	if inOneLine, ok := strings.CutPrefix(list, "["); ok {
		list, _, _ = strings.Cut(inOneLine, "]")
		separator = ","
	}
	for item := range strings.SplitSeq(list, separator) {
		item = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(item), "-"))
		if item != "" {
			l.add(strings.Trim(item, `"'`), "", 0)
		}
	}
	return nil
}

// agents reads nvgpu_master.cfg, a Python list of addresses.
func (l *hostList) agents(text []byte) error {
	l.compat = "nvgpu"
	text = regexp.MustCompile(`#.*`).ReplaceAll(text, nil)
	list := regexp.MustCompile(`AGENTS\s*=\s*\[([^\]]*)`).FindSubmatch(text)
	if list == nil {
		return nil
	}
	for _, quoted := range regexp.MustCompile(`["']([^"'\n]+)["']`).FindAllSubmatch(list[1], -1) {
		if agent := string(quoted[1]); agent != "self" {
			l.add(agent, "", 0)
			continue
		}
		l.refused = append(l.refused, "self, the machine of the master: add its name to hosts if it has GPUs")
	}
	return nil
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
		address = cmp.Or(address, name)
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
		l.hosts = append(l.hosts,
			inventory.Entry{Name: name, Address: address, GPUs: max(0, min(gpus, snapshot.MaxGPUs))})
	}
}

func (l *hostList) has(name string) bool {
	return slices.ContainsFunc(l.hosts, func(h inventory.Entry) bool { return h.Name == name })
}

// json reads what servers answer, and hosts.json:
//
//	{HOST: ADDRESS} or {HOST: {"ip_address": …, "data": [{"gpu_data": {"gpu:0": …}}]}}
//	{"CONSUL_SERVICE_URI": "http://HOST:8500/v1/catalog/service/NAME"}
//	{"Nodes": [{"hostname": …, "ips": [[interface, address]], "gpus": […]}]}, and that list alone
func (l *hostList) json(text []byte) error {
	var members map[string]json.RawMessage
	list := json.RawMessage(text)
	if text[0] == '{' {
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		list = members["Nodes"]
		if uri, ok := members["CONSUL_SERVICE_URI"]; ok {
			return l.consulURI(uri)
		}
	}
	if list != nil {
		l.compat = "nvgpu"
		if members != nil {
			l.compat = "gpu-cluster-monitor"
		}
		return l.nodes(list)
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

// consulURI reads fetch_stats_conf.json of the older GPU Monitor, whose hosts are what Consul answers.
func (l *hostList) consulURI(value []byte) error {
	var uri string
	if err := json.Unmarshal(value, &uri); err != nil {
		return err
	}
	service := regexp.MustCompile(
		`^(https?://[\w.:\[\]-]+)/v1/(?:catalog|health)/service/([\w.-]+)/?(?:\?(.*))?$`)
	m := service.FindStringSubmatch(uri)
	if m == nil {
		return fmt.Errorf("CONSUL_SERVICE_URI is %q, and not http://HOST:8500/v1/catalog/service/NAME",
			snapshot.Text(uri, 200))
	}
	if m[1] != "http://localhost:8500" && m[1] != "http://127.0.0.1:8500" {
		l.consul = m[1]
	}
	l.settings["consul.enabled"], l.settings["consul.service"] = "true", m[2]
	query, _ := url.ParseQuery(m[3])
	parameters := map[string]string{"consul.tags": "tag", "consul.datacenters": "dc", "consul.filter": "filter"}
	for name, parameter := range parameters {
		if values := query[parameter]; len(values) > 0 {
			l.settings[name] = strings.Join(values, ", ")
		}
	}
	return nil
}

// nodes reads a list of what nodes say of themselves.
func (l *hostList) nodes(text []byte) error {
	var nodes []struct {
		Hostname string            `json:"hostname"`
		IPs      [][]string        `json:"ips"`
		GPUs     []json.RawMessage `json:"gpus"`
	}
	if err := json.Unmarshal(text, &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		address := ""
		if len(n.IPs) > 0 && len(n.IPs[0]) == 2 {
			address = n.IPs[0][1]
		}
		l.add(n.Hostname, address, len(n.GPUs))
	}
	return nil
}

// config is the hosts as a part of gpuboard.yml.
func (l *hostList) config(from string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"\n# Hosts, from %s. More can be said of each:\n#    title: Vision box\n#    group: rack 4\n#    owner: vision\n#    note: no overnight jobs\n", snapshot.Text(from, 80))
	if len(l.hosts) == 0 {
		b.WriteString("#")
	}
	b.WriteString("hosts:\n")
	for _, h := range l.hosts {
		fmt.Fprintf(&b, "  - name: %s\n", config.Quote(h.Name))
		if title := l.titles[h.Name]; title != "" {
			fmt.Fprintf(&b, "    title: %s\n", config.Quote(snapshot.Text(title, snapshot.MaxNameBytes)))
		}
		if h.Address != "" {
			fmt.Fprintf(&b, "    address: %s\n", config.Quote(h.Address))
		}
		if h.GPUs > 0 {
			fmt.Fprintf(&b, "    gpus: %d\n", h.GPUs)
		}
	}
	for _, address := range l.unnamed {
		fmt.Fprintf(&b, "# What does this node call itself (hostname -s)?\n#  - name: NAME\n#    address: %s\n",
			address)
	}
	if len(l.shortNames) == 0 {
		return b.String() + builtIn("sample/short_names.yml")
	}
	b.WriteString("\n# Short names of GPUs, by the driver's names.\nshort_names:\n")
	for _, name := range slices.Sorted(maps.Keys(l.shortNames)) {
		fmt.Fprintf(&b, "  %s: %s\n", config.Quote(name), config.Quote(l.shortNames[name]))
	}
	return b.String()
}
