package setup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// groups are those of an Ansible inventory: the addresses of hosts, by group and name.
type groups map[string]map[string]string

// severalGroups is the error of an inventory that does not say which hosts have GPUs.
type severalGroups struct{ why, first string }

func (e *severalGroups) Error() string { return "an Ansible inventory " + e.why }

func (all groups) add(group, host, address string) {
	if all[group] == nil {
		all[group] = map[string]string{}
	}
	all[group][host] = address
}

// inventory takes the hosts that have GPUs.
func (l *hostList) inventory(all groups) error {
	names := slices.Sorted(maps.Keys(all))
	var wanted []string
	for _, name := range names {
		if len(names) == 1 || name == "rpcservers" || name == "gpunodes" {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 && len(names) > 0 {
		return &severalGroups{"with the groups " + strings.Join(names, ", ") + ", none of them rpcservers or gpunodes", names[0]}
	}
	for _, group := range wanted {
		for _, name := range slices.Sorted(maps.Keys(all[group])) {
			if strings.Contains(name, "[") {
				return &severalGroups{"with a range of hosts, " + name, group}
			}
			l.add(name, all[group][name], 0)
		}
	}
	return nil
}

// ini reads an inventory of lines "NAME ansible_host=ADDRESS", below "[GROUP]". Of
// groups with a colon, such as [GROUP:vars], Ansible itself knows the hosts.
func (l *hostList) ini(text []byte) error {
	all, group := groups{}, "ungrouped"
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(regexp.MustCompile(`(^|\s)[#;].*`).ReplaceAllString(line, ""))
		switch {
		case len(fields) == 0:
		case strings.HasPrefix(fields[0], "["):
			group = strings.Trim(fields[0], "[]")
		case !strings.Contains(group, ":"):
			address := ""
			for _, variable := range fields[1:] {
				if value, found := strings.CutPrefix(variable, "ansible_host="); found {
					address = strings.Trim(value, `"'`)
				}
			}
			all.add(group, fields[0], address)
		}
	}
	return l.inventory(all)
}

// yaml reads a configuration with a list of hosts, or an inventory.
func (l *hostList) yaml(text []byte) error {
	var top map[string]any
	if err := yaml.Unmarshal(text, &top); err != nil {
		return err
	}
	if list, ok := top["hosts"].([]any); ok {
		for _, item := range list {
			l.add(fmt.Sprint(item), "", 0)
		}
		return nil
	}
	all := groups{}
	all.addChildren(top)
	return l.inventory(all)
}

func (all groups) addChildren(children map[string]any) {
	for name, child := range children {
		group, _ := child.(map[string]any)
		hosts, _ := group["hosts"].(map[string]any)
		for host, variables := range hosts {
			v, _ := variables.(map[string]any)
			address, _ := v["ansible_host"].(string)
			all.add(name, host, address)
		}
		below, _ := group["children"].(map[string]any)
		all.addChildren(below)
	}
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
