package cli

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Root is the tree of commands as it is the same on every machine, for those
// who write it down: the reference, manual pages and completions. Running one
// of its commands is not what it is for.
func Root() *cobra.Command {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now, getenv: func(string) string { return "" }}
	root := a.root()
	root.Version = ""
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("")
	for _, c := range root.Commands() {
		c.InitDefaultHelpFlag()
		for name, value := range map[string]string{"host": "", "spool": "/var/lib/gpuboard/spool", "state": "/var/lib/gpuboard/state"} {
			if f := c.Flags().Lookup(name); f != nil {
				f.DefValue = value
			}
		}
	}
	return root
}
