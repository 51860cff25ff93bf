package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

func (a *app) publishCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "publish", Short: "push what the spool holds to the drop", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "publish carries over what the drop has not got yet: the newest snapshot first, then the\n" +
			"finished hours of an outage. The server's key is always checked.\n" + exitStatus,
		Example: "  gpuboard publish --to sftp://n-gpu01@web.example.org/in\n  gpuboard publish --to file:///srv/gpuboard/data",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			s, err := openSpool(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			p, err := a.publisher(cfg, false)
			if err != nil {
				return err
			}
			defer p.Close()
			report, err := p.Publish(c.Context(), s)
			for _, w := range report.Warnings {
				fmt.Fprintf(a.stderr, "gpuboard: %s\n", printable(w))
			}
			if err == nil && verbose {
				fmt.Fprintf(a.stderr, "gpuboard: %d files delivered (%d bytes), %d waiting\n", len(report.Delivered), report.Bytes, report.Waiting)
			}
			if err != nil {
				return err
			}
			return a.published(s)
		},
	}
	a.flags(c, "host", "spool", "to", "identity", "known_hosts", "push_timeout")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what was done")
	return c
}

// published says whether the snapshot that the drop has now is well. Without one
// there is nothing to say.
func (a *app) published(s *spool.Spool) error {
	data, err := s.Read(spool.File{Name: spool.LatestName})
	if err != nil {
		return nil
	}
	bundle, err := snapshot.DecodeBundle(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	return a.degraded(bundle.Snapshot)
}

// publisher makes the way to the drop; keep holds the connection between pushes.
func (a *app) publisher(cfg *config.Config, keep bool) (*publisher.Publisher, error) {
	if cfg.String("to") == "" {
		return nil, usagef("gpuboard publish --to sftp://user@web/path, or set to: in the configuration", "no drop to publish to")
	}
	host, err := a.host(cfg)
	if err != nil {
		return nil, err
	}
	target, err := publisher.ParseTarget(cfg.String("to"))
	if err != nil {
		return nil, err
	}
	return publisher.New(publisher.Options{
		Target: target, Host: host, Budget: cfg.Duration("push_timeout"), Keep: keep,
		Identity: cfg.List("identity"), KnownHosts: cfg.List("known_hosts"),
		ResolveConfig: func(ctx context.Context, host string) ([]byte, error) { return sshConfig(ctx, host) },
		StateDir:      filepath.Join(cfg.String("spool"), "push"),
		WriteFile:     writeDrop,
		Sweep:         a.sweepDrop,
		Log:           a.log(),
	})
}

// writeDrop replaces a file in a local data directory. The generator, who may
// be another user, reads it.
func writeDrop(path string, data []byte) error {
	_, err := atomicfile.Write(path, data, fs.FileMode(0o644))
	return err
}

// sweepDrop removes what a killed publisher left in a local drop. The server's
// side of a remote one is remembered by the publisher itself.
func (a *app) sweepDrop(dir string) error {
	_, err := atomicfile.Sweep(dir, 10*time.Minute, a.now())
	return err
}
