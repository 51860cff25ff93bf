package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
)

// load reads the settings in force for a command.
func (a *app) load(c *cobra.Command) (*config.Config, error) {
	return config.Load(config.Sources{Getenv: a.getenv, Flag: func(name string) (string, bool) {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			return "", false
		}
		return f.Value.String(), true
	}})
}

// flags declares the flags of the named settings on a command.
func (a *app) flags(c *cobra.Command, names ...string) {
	all := config.Keys() // which makes a table each time
	for _, name := range names {
		k := config.Among(all, name)
		usage := k.Help
		if k.Arg != "" {
			usage = strings.Replace(usage, k.Arg, "`"+k.Arg+"`", 1)
			if !strings.Contains(usage, "`") {
				usage = "`" + k.Arg + "`: " + usage
			}
		}
		if k.Kind == config.Boolean {
			c.Flags().Bool(k.Flag(), k.Default == "true", usage)
			continue
		}
		c.Flags().String(k.Flag(), k.DefaultHere(a.getenv), usage)
	}
}
