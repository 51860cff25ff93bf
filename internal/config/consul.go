package config

import (
	"slices"
	"strings"

	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
)

// Consul returns what to ask Consul for. Its address, token and TLS are in Consul's own variables.
func (c *Config) Consul() (inventory.ConsulOptions, error) {
	o := inventory.ConsulOptions{
		Service: c.String("consul.service"),
		Tags:    c.List("consul.tags"),
		Filter:  c.String("consul.filter"),

		NodeMeta: map[string]string{},
	}
	for _, dc := range c.List("consul.datacenters") {
		if dc == "all" {
			dc = "*"
		}
		o.Datacenters = append(o.Datacenters, dc)
	}
	for _, pair := range c.List("consul.node_meta") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return o, errorf("consul.node_meta from %s: %q is not KEY=VALUE", c.Origin("consul.node_meta"), pair)
		}
		o.NodeMeta[k] = v
	}
	return o, nil
}

// NewConsul returns the client that asks Consul for hosts.
func (c *Config) NewConsul() (*inventory.Consul, error) {
	o, err := c.Consul()
	if err != nil {
		return nil, err
	}
	consul, err := inventory.NewConsul(o)
	if err != nil {
		return nil, &failure.Error{Exit: failure.ExitUsage, Code: "consul:config", Err: err,
			Hint: "CONSUL_HTTP_ADDR is HOST:PORT or https://HOST:PORT; see: env | grep ^CONSUL_"}
	}
	return consul, nil
}

// AsksConsul reports whether Consul is one of the sources of the inventory.
func (c *Config) AsksConsul() bool {
	if sources := c.List("hosts_from"); len(sources) > 0 {
		return slices.Contains(sources, "consul")
	}
	return c.Bool("consul.enabled") || c.getenv("CONSUL_HTTP_ADDR") != ""
}
