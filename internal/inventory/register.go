package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
)

// CheckID is the id of the check that a node updates, and DefaultTTL is how long
// Consul waits for an update.
const (
	CheckID    = "gpuboard-collect"
	DefaultTTL = 10 * time.Minute
)

// Consul refuses a registration with a longer meta value, in bytes.
const maxMetaValue = 512

// registeredBy marks a registration as this program's. One without the mark comes from
// a file of the agent, such as deploy/consul/gpuboard.json.
const registeredBy = "registered_by"

// ErrNotRegistered is wrapped by the errors of Report when the agent does not know
// the node.
var ErrNotRegistered = errors.New("this node is not registered")

// A Registration describes a node to Consul. Empty fields are left out.
type Registration struct {
	Host    string   `json:"host"` // as snapshot.ParseHost returns it
	GPUs    int      `json:"gpus,omitempty"`
	Models  []string `json:"models,omitempty"`
	Driver  string   `json:"driver,omitempty"`
	Title   string   `json:"title,omitempty"`
	Group   string   `json:"group,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	Notes   string   `json:"notes,omitempty"`
	Drop    string   `json:"drop,omitempty"` // the target of this node's pushes
	SSHHost string   `json:"ssh_host,omitempty"`
	SSHPort int      `json:"ssh_port,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	// TTL is how long Consul waits for the next Report until the check is critical;
	// DefaultTTL when 0.
	TTL time.Duration `json:"-"`
}

// Register registers the node with the agent that runs on it. An equal registration is left
// alone, and a changed one keeps the state of its check. What a file of the agent says of the
// node is kept where the registration has nothing else to say. The notices say what was cut to
// Consul's limits ("register:cut").
func (c *Consul) Register(ctx context.Context, reg Registration) (notices []snapshot.Problem, err error) {
	if reg.Host, err = snapshot.ParseHost(reg.Host); err != nil {
		return nil, fmt.Errorf("registering with Consul: %w", err)
	}
	service, notices := c.registration(reg)
	return notices, c.do(ctx, "registering with Consul", func(ctx context.Context, client *api.Client) error {
		return register(ctx, client, service)
	})
}

// Deregister removes the node from the agent. A node that the agent does not know is
// no error.
func (c *Consul) Deregister(ctx context.Context) error {
	return c.do(ctx, "deregistering from Consul", func(ctx context.Context, client *api.Client) error {
		err := client.Agent().ServiceDeregisterOpts(c.opts.Service, (&api.QueryOptions{}).WithContext(ctx))
		if isStatus(err, http.StatusNotFound) {
			return nil
		}
		return err
	})
}

// Report tells the agent the state of the node, with one line of text such as "8 GPUs, 3
// free". The error wraps [ErrNotRegistered] if the agent does not know the node, for
// example after a restart.
func (c *Consul) Report(ctx context.Context, state Check, output string) error {
	output = line(output, snapshot.MaxTextBytes)
	return c.do(ctx, "reporting to Consul", func(ctx context.Context, client *api.Client) error {
		err := client.Agent().UpdateTTLOpts(CheckID, output, string(state), (&api.QueryOptions{}).WithContext(ctx))
		if unknownCheck(err) {
			return fmt.Errorf("%w: %w", ErrNotRegistered, err)
		}
		return err
	})
}

// do calls f with a client, within the timeout, and hides secrets in its error.
func (c *Consul) do(ctx context.Context, what string, f func(context.Context, *api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	client, hide, err := c.client()
	if err != nil {
		return err
	}
	if err := f(ctx, client); err != nil {
		return hide.wrap(what, err)
	}
	return nil
}

// register registers a service unless the agent has the same already.
func register(ctx context.Context, client *api.Client, want *api.AgentServiceRegistration) error {
	q := (&api.QueryOptions{}).WithContext(ctx)
	have, _, err := client.Agent().Service(want.ID, q)
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return err
	}
	checks, err := client.Agent().ChecksWithFilterOpts(fmt.Sprintf("CheckID == %q", CheckID), q)
	if err != nil {
		return err
	}
	if have != nil && have.Meta[registeredBy] == "" {
		merged := *want
		merged.Meta = maps.Clone(have.Meta)
		maps.Copy(merged.Meta, want.Meta)
		delete(merged.Meta, registeredBy) // the next time it is a file's again
		if len(want.Tags) == 0 {
			merged.Tags = have.Tags
		}
		want = &merged
	}
	check := checks[CheckID]
	if have != nil && check != nil && same(have, check, want) {
		return nil
	}
	// The agent keeps the state of an existing check.
	return client.Agent().ServiceRegisterOpts(want,
		api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx))
}

func same(have *api.AgentService, check *api.AgentCheck, want *api.AgentServiceRegistration) bool {
	return have.Service == want.Name && slices.Equal(have.Tags, want.Tags) && maps.Equal(have.Meta, want.Meta) &&
		check.ServiceID == want.ID && check.Name == want.Check.Name &&
		check.Notes == want.Check.Notes // contains the TTL, which the agent does not return
}

// unknownCheck reports whether the agent does not know the check: current versions of
// Consul answer 404, old ones 500 with a text about the TTL.
func unknownCheck(err error) bool {
	return isStatus(err, http.StatusNotFound) ||
		isStatus(err, http.StatusInternalServerError) && strings.Contains(err.Error(), "TTL")
}

func isStatus(err error, code int) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == code
}

// registration returns a registration within Consul's limits.
func (c *Consul) registration(reg Registration) (*api.AgentServiceRegistration, []snapshot.Problem) {
	var notices []snapshot.Problem
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	meta := map[string]string{registeredBy: "gpuboard"}
	own := map[string]string{
		"host": reg.Host, "gpus": number(reg.GPUs), "models": strings.Join(reg.Models, ", "), "driver": reg.Driver,
		"title": reg.Title, "group": reg.Group, "owner": reg.Owner, "notes": reg.Notes, "drop": reg.Drop,
		"ssh_host": reg.SSHHost, "ssh_port": number(reg.SSHPort),
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		value := own[key]
		if safe := line(value, maxMetaValue); safe != "" {
			meta[key] = safe
		}
		if len(strings.Join(strings.Fields(value), " ")) > maxMetaValue {
			notices = append(notices, problem("register:cut", reg.Host,
				"the meta value of %s is cut: Consul takes %d bytes", key, maxMetaValue))
		}
	}
	tags := tagsOf(reg.Tags)
	if tags == nil {
		tags = []string{} // what the agent returns for none
	}
	if len(tags) < len(reg.Tags) {
		notices = append(notices, problem("register:cut", reg.Host,
			"%d tags are left out: they are empty, double, or more than %d", len(reg.Tags)-len(tags), MaxTags))
	}
	ttl := cmp.Or(max(reg.TTL, 0), DefaultTTL)
	return &api.AgentServiceRegistration{
		ID: c.opts.Service, Name: c.opts.Service, Tags: tags, Meta: meta,
		// Without DeregisterCriticalServiceAfter, so that a dead host stays on the board.
		Check: &api.AgentServiceCheck{CheckID: CheckID, Name: "collector", TTL: ttl.String(),
			Notes: fmt.Sprintf("the collector's last push; expected within %s", ttl)},
	}, notices
}
