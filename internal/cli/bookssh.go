package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/config"
	"gpuboard/internal/shell"
)

// onWebHost reports that a command that reads or changes bookings was run on the
// web host by ssh, and what came of it. It does so where booking.ssh names the
// web host, unless somebody names a file on this machine by a flag.
func (a *app) onWebHost(c *cobra.Command, cfg *config.Config, args []string) (done bool, err error) {
	host := cfg.String("booking.ssh")
	if host == "" || c.Flags().Changed("comments") || c.Flags().Changed("data") {
		return false, nil
	}
	if strings.HasPrefix(host, "-") || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return true, usagef("for instance booking.ssh: ada@web.example.org", "booking.ssh from %s: %q is not a host as ssh takes it", cfg.Origin("booking.ssh"), host)
	}
	code, err := a.ssh(c.Context(), host, remoteCommand(c, cfg, args))
	switch {
	case err != nil:
		return true, fail(exitError, fmt.Errorf("running gpuboard on %s: %w", host, err), "bookings are changed on the web host: is ssh installed here?")
	case code == sshFailed:
		return true, fail(exitTempFail, fmt.Errorf("running gpuboard on %s: ssh failed", host), "try: ssh "+shell.Quote(host)+" gpuboard version")
	case code != exitOK:
		return true, silent(code) // it has said everything itself
	}
	return true, nil
}

// sshFailed is the exit code by which ssh tells its own errors from the command's.
const sshFailed = 255

// remoteCommand is the same command for the shell of the web host. What is about
// this machine stays here: its configuration file, and booking.ssh itself.
func remoteCommand(c *cobra.Command, cfg *config.Config, args []string) string {
	words := []string{"gpuboard", c.Name()}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "booking-ssh" && f.Name != "booking-name" {
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	})
	if name := cfg.String("booking.name"); name != "" {
		words = append(words, "--booking-name="+name)
	}
	words = append(words, "--booking-ssh=", "--")
	return shell.Join(append(words, args...)...)
}
