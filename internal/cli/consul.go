package cli

import (
	"strings"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
)

// consul makes the question to Consul.
func (a *app) consul(cfg *config.Config) (*inventory.Consul, error) {
	o, err := consulOptions(cfg)
	if err != nil {
		return nil, err
	}
	c, err := inventory.NewConsul(o)
	if err != nil {
		return nil, because("consul:config", fail(exitUsage, err, ""))
	}
	return c, nil
}

// consulOptions are what the configuration says about Consul. Where Consul is,
// the token and TLS are in Consul's own environment variables.
func consulOptions(cfg *config.Config) (inventory.ConsulOptions, error) {
	o := inventory.ConsulOptions{
		Service: cfg.String("consul.service"),
		Tags:    cfg.List("consul.tags"),
		Filter:  cfg.String("consul.filter"),
	}
	for _, dc := range cfg.List("consul.datacenters") {
		if dc == "all" {
			dc = "*"
		}
		o.Datacenters = append(o.Datacenters, dc)
	}
	for _, pair := range cfg.List("consul.node_meta") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return o, usagef("", "consul.node_meta from %s: %q is not KEY=VALUE", cfg.Origin("consul.node_meta"), pair)
		}
		if o.NodeMeta == nil {
			o.NodeMeta = map[string]string{}
		}
		o.NodeMeta[k] = v
	}
	return o, nil
}
