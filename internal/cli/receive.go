package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/publisher/dropbox"
)

func (a *app) receiveCommand() *cobra.Command {
	var authorized string
	c := &cobra.Command{
		Use: "receive", Short: "receive snapshots over SFTP with the built-in server", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "receive is a built-in SFTP server that accepts only the files of nodes. Each node has its\n" +
			"own key, HOST.pub in the directory of keys, and can only write to its own drop. It needs\n" +
			"neither root nor an account per node.\n" + exitStatus,
		Example: "  ssh-keygen -t ed25519 -f gpu01 -N '' && mv gpu01.pub keys/\n  gpuboard receive --data /srv/gpuboard/data --keys keys --listen :2222",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			keys := cfg.String("keys")
			if keys == "" && authorized == "" {
				keys = filepath.Join(cfg.String("state"), "keys")
			}
			hostKey := cfg.String("host_key")
			if hostKey == "" {
				hostKey = filepath.Join(cfg.String("state"), "receive_host_key")
			}
			if err := os.MkdirAll(filepath.Dir(hostKey), 0o700); err != nil {
				return failure.Because("state:unwritable", failure.New(failure.ExitUsage, fmt.Errorf("making a place for the host key: %w", err), "name a file of your own with --host-key FILE, or a directory with --state DIR"))
			}
			listen := cfg.String("listen")
			if !cfg.Given("listen") {
				listen = "127.0.0.1:2222" // 8080 is the web server's
			}
			err := dropbox.Serve(c.Context(), dropbox.Options{
				Data: cfg.String("data"), Keys: keys, AuthorizedKeys: authorized, HostKey: hostKey, Listen: listen, Log: a.log(), Now: a.now,
				OnListen: func(addr net.Addr, key string) {
					fmt.Fprintf(a.stderr, "gpuboard: receiving on %s; nodes need this line in known_hosts:\n%s\n", addr, knownHostsLine(addr, key))
					// Whoever prepared the directory for sshd made it root's.
					if drops := filepath.Join(cfg.String("data"), "drop"); !config.Writable(drops) {
						fmt.Fprintf(a.stderr, "gpuboard: warning: this user cannot write %s: a node is turned away unless it has a directory there\ngpuboard: hint: chown %d %s\n", drops, os.Geteuid(), shell.Quote(drops))
					}
				},
			})
			if err != nil {
				return failure.Because("receive:start", failure.New(failure.ExitUsage, err, "a node's public key is "+filepath.Join(keys, "HOST.pub")+"; gpuboard receive --help shows how to make one"))
			}
			return nil
		}),
	}
	a.flags(c, "data", "state", "keys", "host_key", "listen")
	c.Flags().StringVar(&authorized, "authorized-keys", "", "`FILE` with a line host=\"NAME\" KEY for each node, in addition to --keys or instead")
	return c
}

// knownHostsLine is what a node has to know about this server. An address that
// listens everywhere is left for the reader to fill in.
func knownHostsLine(addr net.Addr, key string) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return key
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "WEBHOST"
	}
	return fmt.Sprintf("[%s]:%s %s", host, port, key)
}
