package cli

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

func (a *app) publishCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "publish", Short: "push what the spool holds to the drop", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "publish pushes what the drop does not have yet: the newest snapshot first, then the finished\n" +
			"hours of an outage. The server's host key is always checked.\n" + exitStatus,
		Example: "  gpuboard publish\n  gpuboard publish --to sftp://n-gpu01@web.example.org/in\n  gpuboard publish --to file:///srv/gpuboard/data",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			s, err := a.openSpool(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			p, err := a.node(cfg).Publisher(false, nil)
			if err != nil {
				return err
			}
			defer p.Close()
			report, err := p.Publish(c.Context(), s)
			if err == nil && verbose {
				fmt.Fprintf(a.stderr, "gpuboard: %d files delivered (%d bytes), %d waiting\n", len(report.Delivered),
					report.Bytes, report.Waiting)
			}
			if err != nil {
				return err
			}
			return a.published(s)
		}),
	}
	a.flags(c, "host", "spool", "to", "identity", "known_hosts", "push_timeout")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what was done")
	return c
}

// published says whether the snapshot that the drop has now is well.
func (a *app) published(s *spool.Spool) error {
	data, err := s.Read(spool.LatestName)
	if err != nil {
		return nil
	}
	bundle, err := snapshot.DecodeBundle(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	return a.degraded(bundle.Snapshot)
}
