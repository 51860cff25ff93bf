package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
)

// hostsOf returns the hosts of Consul's entries. Every text in them is untrusted,
// names included: whoever may register a service chooses them.
func hostsOf(replies []reply) ([]Host, []snapshot.Problem) {
	var c collection
	for _, r := range replies {
		slices.SortStableFunc(r.entries, func(a, b *api.ServiceEntry) int {
			return cmp.Or(
				cmp.Compare(aliased(a), aliased(b)),
				strings.Compare(a.Node.Node, b.Node.Node),
				strings.Compare(a.Service.ID, b.Service.ID),
			)
		})
		for _, e := range r.entries {
			datacenter := cmp.Or(e.Node.Datacenter, r.datacenter)
			where := fmt.Sprintf("Consul node %s in %s", quote(e.Node.Node), quote(datacenter))
			name, err := snapshot.ParseHost(entryName(e))
			if err != nil {
				c.refuse(where, err)
				continue
			}
			h, problems := hostOf(e, name)
			h.Datacenter = snapshot.Text(datacenter, snapshot.MaxNameBytes)
			if len(replies) > 1 { // two datacenters may both have a "rack 4"
				h.Group = line(strings.TrimSuffix(datacenter+" / "+h.Group, " / "), snapshot.MaxNameBytes)
			}
			c.add(h, where, problems...)
		}
	}
	return c.result("Consul")
}

func entryName(e *api.ServiceEntry) string {
	return cmp.Or(e.Service.Meta["host"], e.Node.Node)
}

// aliased is 1 for a node that uses another host name than its own. The name's owner goes first.
func aliased(e *api.ServiceEntry) int {
	if strings.EqualFold(entryName(e), e.Node.Node) {
		return 0
	}
	return 1
}

func hostOf(e *api.ServiceEntry, name string) (Host, []snapshot.Problem) {
	meta := e.Service.Meta
	h := Host{
		Name: name, Title: meta["title"], Owner: meta["owner"], Tags: e.Service.Tags,
		Group: cmp.Or(meta["group"], e.Node.Meta["group"], e.Node.Meta["rack"]),
		Note:  cmp.Or(meta["notes"], meta["note"]),
	}
	var problems []snapshot.Problem
	if s := meta["gpus"]; s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > snapshot.MaxGPUs {
			problems = append(problems, problem("discovery:bad-meta", name,
				"%s's meta in Consul says gpus = %s, which is not a number from 0 to %d", name, quote(s), snapshot.MaxGPUs))
		} else {
			h.ExpectedGPUs = n
		}
	}
	var err error
	if h.Address, err = addressOf(e, name); err != nil {
		problems = append(problems, problem("discovery:bad-meta", name, "%s's meta in Consul says %v", name, err))
	}
	h.Check, h.CheckOutput, h.MaintenanceReason = checkOf(e.Checks)
	h.Maintenance = h.Check == Maintenance
	if drained, reason := maintenanceOf(meta["maintenance"]); drained {
		h.Maintenance = true
		h.MaintenanceReason = cmp.Or(h.MaintenanceReason, reason)
	}
	h.clean()
	return h, problems
}

// addressOf returns the arguments of ssh. People copy them into a shell, so only a
// host name or an IP address is allowed, and never an option.
func addressOf(e *api.ServiceEntry, name string) (string, error) {
	host, port := e.Service.Meta["ssh_host"], e.Service.Meta["ssh_port"]
	if host == "" {
		// The node's own name resolves within its cluster.
		host, _ = snapshot.ParseHost(e.Node.Node)
	} else if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		host = ip.String()
	} else if host, err = snapshot.ParseHost(host); err != nil {
		return "", fmt.Errorf("ssh_host = %s, which is neither a host name nor an address",
			quote(e.Service.Meta["ssh_host"]))
	}
	host = cmp.Or(host, name)
	if port != "" && port != "22" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return "", fmt.Errorf("ssh_port = %s, which is not a port", quote(port))
		}
		return fmt.Sprintf("-p %d %s", n, host), nil
	}
	if host == name {
		return "", nil
	}
	return host, nil
}

// checkOf returns the worst check of a node and its service; the notes of maintenance are the reason.
func checkOf(checks api.HealthChecks) (state Check, output, reason string) {
	state = Passing
	rank := []Check{Passing, Warning, Critical}
	drained := false
	for _, c := range checks {
		if c == nil {
			continue
		}
		if c.CheckID == api.NodeMaint || strings.HasPrefix(c.CheckID, api.ServiceMaintPrefix) {
			drained = true
			reason = cmp.Or(reason, strings.TrimSpace(c.Notes))
			continue
		}
		is := Check(c.Status)
		if !slices.Contains(rank, is) {
			is = Warning // an unknown status
		}
		if slices.Index(rank, is) > slices.Index(rank, state) {
			state, output = is, cmp.Or(c.Output, c.Name, c.CheckID)
		}
	}
	if drained {
		state = Maintenance
	}
	return state, output, reason
}

// maintenanceOf reads a maintenance entry: yes, no, or the reason.
func maintenanceOf(s string) (drained bool, reason string) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "false", "no", "off", "0":
		return false, ""
	case "true", "yes", "on", "1":
		return true, ""
	}
	return true, s
}

// line returns untrusted text as one safe line of bounded length.
func line(s string, max int) string {
	if len(s) > 16*max {
		s = s[:16*max]
	}
	return snapshot.Text(strings.Join(strings.Fields(s), " "), max)
}

func quote(s string) string { return strconv.Quote(snapshot.Text(s, 80)) }

func tagsOf(tags []string) []string {
	var out []string
	for _, t := range tags {
		if t = line(t, snapshot.MaxProgramBytes); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
		if len(out) == MaxTags {
			break
		}
	}
	return out
}

// A collection gathers the hosts of one source: each name once, and a bounded number.
type collection struct {
	hosts    map[string]Host
	where    map[string]string
	problems []snapshot.Problem // about fields of hosts
	refused  problemList        // names that are no host names
	doubles  problemList        // names that were there already
	tooMany  int
}

// A problemList lists the first problems of one kind, and counts them all.
type problemList struct {
	listed []snapshot.Problem
	count  int
}

// maxListed is how many problems of one kind are listed before the rest is counted.
const maxListed = 16

func (l *problemList) add(code, host, format string, args ...any) {
	l.count++
	if len(l.listed) < maxListed {
		l.listed = append(l.listed, problem(code, host, format, args...))
	}
}

// problem is one whose text is safe and bounded, whatever it quotes.
func problem(code, host, format string, args ...any) snapshot.Problem {
	p := snapshot.NewProblem(code, format, args...)
	p.Host = host
	return p
}

func (c *collection) refuse(where string, err error) {
	c.refused.add("discovery:bad-name", "", "%s is left out: %v", where, err)
}

func (c *collection) add(h Host, where string, problems ...snapshot.Problem) {
	if c.hosts == nil {
		c.hosts, c.where = map[string]Host{}, map[string]string{}
	}
	if first, ok := c.where[h.Name]; ok {
		c.doubles.add("discovery:duplicate", h.Name, "%s is named twice; %s counts, and %s does not", h.Name, first,
			where)
		return
	}
	if len(c.hosts) >= MaxHosts {
		c.tooMany++
		return
	}
	c.hosts[h.Name], c.where[h.Name] = h, where
	c.problems = append(c.problems, problems...)
}

func (c *collection) result(source string) ([]Host, []snapshot.Problem) {
	hosts := slices.SortedFunc(maps.Values(c.hosts), byName)
	problems := slices.Concat(c.problems, c.refused.listed, c.doubles.listed)
	more := func(code string, n int, what string) {
		if n > 0 {
			problems = append(problems, problem(code, "", "%s names %d more %s", source, n, what))
		}
	}
	more("discovery:bad-name", c.refused.count-len(c.refused.listed),
		"hosts that are left out because their names are not host names")
	more("discovery:duplicate", c.doubles.count-len(c.doubles.listed), "hosts twice")
	more("discovery:too-many", c.tooMany, fmt.Sprintf("hosts than the %d that are looked at", MaxHosts))
	return hosts, problems
}

func byName(a, b Host) int { return strings.Compare(a.Name, b.Name) }
