package cli

import (
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/node"
	"gpuboard/internal/snapshot"
)

// registered is what register and deregister print with --json.
type registered struct {
	Registered bool   `json:"registered"`
	Service    string `json:"service"`
	inventory.Registration
	TTLSeconds int                `json:"ttl_seconds,omitempty"`
	Problems   []snapshot.Problem `json:"problems,omitempty"`
}

func (a *app) registerCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "register", Short: "register this node with Consul; deregister undoes it", GroupID: groupNode,
		Args: cobra.NoArgs,
		Long: "register adds the service to the Consul agent of this node, with the node's name on the\n" +
			"board, the models of its GPUs and the values of --register-…. It can be repeated. The check\n" +
			"of the service is critical until a push succeeds. run --register registers by itself and\n" +
			"keeps the check up to date. Consul's own variables set its address and token\n" +
			"(CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN_FILE).\n" + exitStatus,
		Example: "  gpuboard register --register-title 'Vision box' --register-group 'rack 4'\n  gpuboard register --json",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			reg, err := a.node(cfg).Registration()
			if err != nil {
				return err
			}
			consul, err := cfg.NewConsul()
			if err != nil {
				return err
			}
			snap, err := a.node(cfg).Collect(c.Context())
			if err != nil {
				return err
			}
			node.Learn(&reg, snap)
			notices, err := consul.Register(c.Context(), reg)
			if err != nil {
				return err
			}
			problems := notices
			if len(snap.GPUs) == 0 { // then the registration says nothing of the GPUs
				problems = append(problems, snap.Errors...)
			}
			if asJSON {
				err := writeJSON(a.stdout,
					registered{true, cfg.String("consul.service"), reg, int(reg.TTL / time.Second), problems})
				if err != nil {
					return err
				}
			}
			for _, p := range problems {
				a.complain(p)
			}
			if len(problems) > 0 {
				return silent(failure.ExitDegraded)
			}
			return nil
		}),
	}
	a.flags(c, "host", "spool", "nvidia_smi", "nvidia_smi_timeout", "amd_smi", "amd_integrated", "ps", "to",
		"consul.service",
		"register.title", "register.group", "register.owner", "register.notes", "register.tags", "register.ssh_host",
		"register.gpus", "register.ttl")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}

func (a *app) deregisterCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "deregister", Short: "remove this node from its Consul agent", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "deregister removes the service from the Consul agent of this node. The board shows the node\n" +
			"as not listed for a day. Stop a loop that registers (run --register) first, or it registers\n" +
			"again.\n" + exitStatus,
		Example: "  gpuboard check kill && gpuboard deregister",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			host, err := a.node(cfg).Host()
			if err != nil {
				return err
			}
			consul, err := cfg.NewConsul()
			if err != nil {
				return err
			}
			if err := consul.Deregister(c.Context()); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout,
					registered{Service: cfg.String("consul.service"), Registration: inventory.Registration{Host: host}})
			}
			return nil
		}),
	}
	a.flags(c, "host", "consul.service")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}
