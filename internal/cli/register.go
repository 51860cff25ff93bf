package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
)

// registered is what register and deregister print with --json.
type registered struct {
	Registered bool               `json:"registered"`
	Host       string             `json:"host"`
	Service    string             `json:"service"`
	GPUs       int                `json:"gpus,omitempty"`
	Models     []string           `json:"models,omitempty"`
	Driver     string             `json:"driver,omitempty"`
	Title      string             `json:"title,omitempty"`
	Group      string             `json:"group,omitempty"`
	Owner      string             `json:"owner,omitempty"`
	Notes      string             `json:"notes,omitempty"`
	Drop       string             `json:"drop,omitempty"`
	SSHHost    string             `json:"ssh_host,omitempty"`
	SSHPort    int                `json:"ssh_port,omitempty"`
	Tags       []string           `json:"tags,omitempty"`
	TTLSeconds int                `json:"ttl_seconds,omitempty"`
	Problems   []snapshot.Problem `json:"problems,omitempty"`
}

func (a *app) registerCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "register", Short: "tell this node's Consul agent that it has GPUs", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "register makes the Consul agent of this node know the service: the board's name for the\n" +
			"node, the models of its GPUs, and what --register-… says. Registering\n" +
			"twice changes nothing. Its check is critical until something is pushed: run --register\n" +
			"keeps it, and registers by itself. Address and token of Consul are in Consul's own\n" +
			"variables (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN_FILE).\n" + exitStatus,
		Example: "  gpuboard register --register-title 'Vision box' --register-group 'rack 4'\n  gpuboard register --json",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			reg, err := a.registration(cfg)
			if err != nil {
				return err
			}
			registrar, err := newRegistrar(cfg)
			if err != nil {
				return err
			}
			snap, err := a.collector(cfg, reg.Host, 0).Collect(c.Context())
			if err != nil {
				return err
			}
			learn(&reg, snap)
			notices, err := registrar.Register(c.Context(), reg)
			if err != nil {
				return err
			}
			problems := notices
			if len(snap.GPUs) == 0 { // then the registration says nothing of the GPUs
				problems = append(problems, snap.Errors...)
			}
			if asJSON {
				err := writeJSON(a.stdout, registered{
					Registered: true, Host: reg.Host, Service: cfg.String("consul.service"), GPUs: reg.GPUs, Models: reg.Models, Driver: reg.Driver,
					Title: reg.Title, Group: reg.Group, Owner: reg.Owner, Notes: reg.Notes, Drop: reg.Drop, SSHHost: reg.SSHHost, SSHPort: reg.SSHPort,
					Tags: reg.Tags, TTLSeconds: int(reg.TTL / time.Second), Problems: problems,
				})
				if err != nil {
					return err
				}
			}
			for _, p := range problems {
				a.complain(p)
			}
			if len(problems) > 0 {
				return silent(exitDegraded)
			}
			return nil
		},
	}
	a.flags(c, "host", "spool", "nvidia_smi", "nvidia_smi_timeout", "ps", "to", "consul.service",
		"register.title", "register.group", "register.owner", "register.notes", "register.tags", "register.ssh_host", "register.gpus", "register.ttl")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was registered")
	return c
}

func (a *app) deregisterCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "deregister", Short: "make this node's Consul agent forget the service", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "deregister takes the service out of the Consul agent of this node. The board shows the\n" +
			"node as gone for a day. A loop that registers (run --register) would register it again:\n" +
			"end that first.\n" + exitStatus,
		Example: "  gpuboard check kill && gpuboard deregister",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			host, err := a.host(cfg)
			if err != nil {
				return err
			}
			registrar, err := newRegistrar(cfg)
			if err != nil {
				return err
			}
			if err := registrar.Deregister(c.Context()); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, registered{Host: host, Service: cfg.String("consul.service")})
			}
			return nil
		},
	}
	a.flags(c, "host", "consul.service")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was taken out")
	return c
}

func newRegistrar(cfg *config.Config) (*inventory.Registrar, error) {
	o, err := consulOptions(cfg)
	if err != nil {
		return nil, err
	}
	r, err := inventory.NewRegistrar(o)
	if err != nil {
		return nil, because("consul:config", fail(exitUsage, err, ""))
	}
	return r, nil
}

// registration is what the configuration says about this node; the rest is
// learned from a snapshot.
func (a *app) registration(cfg *config.Config) (inventory.Registration, error) {
	host, err := a.host(cfg)
	if err != nil {
		return inventory.Registration{}, err
	}
	reg := inventory.Registration{
		Host: host, Title: cfg.String("register.title"), Group: cfg.String("register.group"), Owner: cfg.String("register.owner"),
		Notes: cfg.String("register.notes"), Tags: cfg.List("register.tags"), TTL: cfg.Duration("register.ttl"),
	}
	if n := cfg.Number("register.gpus"); n != float64(int(n)) || n > snapshot.MaxGPUs {
		return reg, usagef("", "register.gpus from %s: %s is not a whole number up to %d", cfg.Origin("register.gpus"), cfg.String("register.gpus"), snapshot.MaxGPUs)
	} else {
		reg.GPUs = int(n)
	}
	if to := cfg.String("to"); to != "" {
		target, err := publisher.ParseTarget(to)
		if err != nil {
			return reg, err
		}
		reg.Drop = target.String()
	}
	reg.SSHHost, reg.SSHPort, err = sshAddress(cfg.String("register.ssh_host"))
	if err != nil {
		return reg, usagef("", "register.ssh_host from %s: %w", cfg.Origin("register.ssh_host"), err)
	}
	return reg, nil
}

// sshAddress splits HOST or HOST:PORT; an address with colons of its own needs
// brackets only before a port.
func sshAddress(s string) (host string, port int, err error) {
	host = s
	if h, p, splitErr := net.SplitHostPort(s); splitErr == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("%q is not a port", p)
		}
		host, port = h, int(n)
	}
	if host == "" || net.ParseIP(host) != nil {
		return host, port, nil
	}
	if host, err = snapshot.ParseHost(host); err != nil {
		return "", 0, err
	}
	return host, port, nil
}

// learn fills in what a snapshot shows of the GPUs. How many there should be is not
// learnt: a node that was restarted after it lost a GPU would tell one fewer, and the
// board would take the lost one for removed. The board remembers the GPUs that it saw.
func learn(reg *inventory.Registration, snap *snapshot.Snapshot) {
	if snap.DriverVersion != "" {
		reg.Driver = snap.DriverVersion
	}
	var models []string
	for _, g := range snap.GPUs {
		if g.Name != "" && !slices.Contains(models, g.Name) {
			models = append(models, g.Name)
		}
	}
	if models != nil {
		reg.Models = models
	}
}

// notRegistered reports whether the agent does not know this node.
func notRegistered(err error) bool { return errors.Is(err, inventory.ErrNotRegistered) }
