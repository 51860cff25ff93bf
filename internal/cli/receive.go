package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/publisher/dropbox"
)

func (a *app) receiveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "receive", Short: "receive snapshots over SFTP with the built-in server", GroupID: groupWeb,
		Args: cobra.NoArgs,
		Long: "receive is a built-in SFTP server that accepts only the files of nodes. Each node has its\n" +
			"own key, HOST.pub in the directory of keys, and can only write to its own drop. It needs\n" +
			"neither root nor an account per node.\n" + exitStatus,
		Example: "  gpuboard receive --listen 127.0.0.1:2222\n  gpuboard receive --data /srv/gpuboard/data --keys keys --listen :2222",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			keys := cfg.KeysDir()
			hostKey := cmp.Or(cfg.String("host_key"), filepath.Join(cfg.String("state"), "receive_host_key"))
			if err := os.MkdirAll(filepath.Dir(hostKey), 0o700); err != nil {
				return failure.Because("state:unwritable",
					failure.New(failure.ExitUsage, fmt.Errorf("creating a directory for the host key: %w", err),
						"name a file of your own with --host-key FILE, or a directory with --state DIR"))
			}
			listen := cfg.ReceiveAddress()
			// A push is small, and waits for the network and the disk. With more processors it takes a
			// tenth more time of them, because threads wake each other.
			if a.getenv("GOMAXPROCS") == "" {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			}
			options := dropbox.Options{
				Data: cfg.String("data"), Keys: keys, HostKey: hostKey, Listen: listen, Log: a.log(), Now: a.now,
				OnListen: func(addr net.Addr, key, fingerprint string) {
					fmt.Fprintf(a.stderr,
						"gpuboard: receiving on %s; on each node type\n  echo '%s %s' >> ~/.ssh/known_hosts\n", addr,
						strings.Join(names(addr), ","), key)
					fmt.Fprintf(a.stderr,
						"gpuboard: a node that calls this host by another name needs that name in the list; the key is %s\n", fingerprint)
					// Whoever prepared the directory for sshd made it root's.
					if drops := filepath.Join(cfg.String("data"), "drop"); config.Writable(drops) != nil {
						fmt.Fprintf(a.stderr, "gpuboard: warning: this user cannot write %s: "+
							"a node is turned away unless it has a directory there\ngpuboard: hint: %s\n",
							drops, doctor.Own(drops, os.Geteuid(), "gpuboard "+shell.Join(a.args...)))
					}
				},
			}
			return a.upgrading(c.Context(), func(ctx context.Context) error {
				err := dropbox.Serve(ctx, options)
				if strings.HasPrefix(failure.CodeOf(err), "listen:") {
					return failure.New(failure.ExitUsage, err, listenHint(listen, err))
				}
				if err != nil {
					return failure.Because("receive:start",
						failure.New(failure.ExitUsage, err,
							"make a key for each node, such as gpu01: ssh-keygen -q -t ed25519 -N '' -f gpu01; mv gpu01.pub "+shell.Quote(keys)+"/; the file gpu01 goes to the node"))
				}
				return nil
			})
		}),
	}
	a.flags(c, "data", "state", "keys", "host_key", "listen")
	return c
}

const maxNames = 8

// names are those under which nodes may reach an address, each with its port. A server that
// listens on all addresses has this machine's name and addresses; the web host may be a node itself.
func names(addr net.Addr) []string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return []string{addr.String()}
	}
	all := []string{host}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		all = nil
		if name, err := os.Hostname(); err == nil {
			all = append(all, strings.ToLower(name))
		}
		all = append(all, "localhost")
		own, _ := net.InterfaceAddrs()
		for _, a := range own {
			if ip, ok := a.(*net.IPNet); ok && (ip.IP.IsGlobalUnicast() || ip.IP.IsLoopback()) && len(all) < maxNames {
				all = append(all, ip.IP.String())
			}
		}
	}
	for i, name := range all {
		all[i] = "[" + name + "]:" + port
	}
	return all
}
