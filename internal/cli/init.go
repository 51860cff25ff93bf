package cli

import (
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/setup"
)

func (a *app) initCommand() *cobra.Command {
	o := setup.Options{Getenv: a.getenv, Out: a.stdout}
	c := &cobra.Command{
		Use: "init web|node DIR", Short: "write a configuration and the files that start it", GroupID: groupSetup,
		Args: cobra.ExactArgs(2),
		Long: "init writes what a web host or a node needs into a directory: a configuration with every\n" +
			"setting and its default, and under setup/ a crontab, systemd units, and configurations of\n" +
			"sshd, nginx or Consul with this machine's paths and name. It installs nothing. Existing\n" +
			"files stay as they are, but --host and --to of a node are added to a configuration without\n" +
			"them. Then it prints what to type next.\n" +
			"With --from, the hosts come from another board's list: a file with a name on each line,\n" +
			"index.php, hosts.json, fetch_stats_conf.json, config.yml, nvgpu_master.cfg, or what its\n" +
			"server answers for /states/, /get-status or /cluster_status.\n" + exitStatus,
		Example: "  gpuboard init web ./board\n  gpuboard init web /srv/gpuboard --host gpus.example.org\n  gpuboard init web ./new --from hosts.txt\n  gpuboard init node /etc/gpuboard --host gpu01 --to sftp://n-gpu01@gpus.example.org/in",
		RunE: func(_ *cobra.Command, args []string) error {
			o.Side, o.Dir = args[0], args[1]
			var err error
			if o.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Systemd = config.IsDir("/run/systemd/system")
			o.Packaged = o.Systemd &&
				(config.IsFile("/usr/lib/systemd/system/gpuboard-node.service") ||
					config.IsFile("/lib/systemd/system/gpuboard-node.service"))
			if os.Geteuid() != 0 {
				me, err := user.Current()
				if err != nil {
					return fmt.Errorf("finding who runs this: %w", err)
				}
				o.User, o.Group = me.Username, me.Gid
			}
			return setup.Init(o)
		},
	}
	c.Flags().StringVar(&o.Host, "host", "",
		"`NAME` of this machine: a node's name on the board, or the name by which nodes reach the web host (default: its own)")
	c.Flags().StringVar(&o.To, "to", "",
		"`URL` of the drop that a node pushes to, such as sftp://n-gpu01@web.example.org/in")
	c.Flags().StringVar(&o.Site, "site", "",
		"`DIR` that the site is written to (default: "+setup.SiteInMemory+
			" where root sets up a machine with systemd, else DIR/site)")
	c.Flags().StringVar(&o.From, "from", "", "`FILE` in which another board lists its hosts")
	return c
}
