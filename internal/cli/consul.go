package cli

import (
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
)

// consul makes the question to Consul.
func (a *app) consul(cfg *config.Config) (*inventory.Consul, error) {
	o, err := cfg.Consul()
	if err != nil {
		return nil, err
	}
	c, err := inventory.NewConsul(o)
	if err != nil {
		return nil, failure.Because("consul:config", failure.New(failure.ExitUsage, err, ""))
	}
	return c, nil
}
