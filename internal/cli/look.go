package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/text"
)

// hereKeys are the settings of commands that look at this node now.
func hereKeys() []string {
	here := []string{"host", "spool", "nvidia_smi", "nvidia_smi_timeout", "amd_smi", "amd_integrated", "ps"}
	return append(here, judgingKeys()...)
}

// judgingKeys are the settings by which the GPUs of a node that was read are free or in use.
func judgingKeys() []string {
	return []string{"site_url", "site_timeout", "data", "site", "comments", "aliases", "timezone",
		"free_memory_mib", "free_memory_percent", "service_accounts", "container_uids", "container_people"}
}

// partial is the exit status of an answer that may lack GPUs; nil for a full one.
func partial(b *board.Board) error {
	if slices.ContainsFunc(b.Problems, func(p snapshot.Problem) bool { return p.Code == source.PartialCode }) {
		return silent(failure.ExitDegraded)
	}
	return nil
}

// unixUser is who runs this, as ps would call them.
func (a *app) unixUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	if name := a.getenv("USER"); name != "" {
		return name // from a directory that this program cannot ask
	}
	return strconv.Itoa(os.Getuid())
}

// withProblems prints the problems of a node but the one that err says, and returns err.
func (a *app) withProblems(b *board.Board, err error) error {
	for _, p := range b.Problems {
		if err == nil || !strings.HasSuffix(err.Error(), p.Message) {
			a.complain(p)
		}
	}
	return err
}

// gpusMissing is the error of a node whose GPUs could not be read; nil if they could.
// Without it such a node would seem to have no free GPU.
func (a *app) gpusMissing(cfg *config.Config, b *board.Board) error {
	h := &b.Hosts[0]
	if slices.ContainsFunc(h.GPUs, func(g board.GPU) bool { return g.Name != "" || g.UUID != "" || g.PCIBusID != "" }) {
		return nil
	}
	for _, p := range h.Problems {
		if p.AboutGPUs() {
			hint := ""
			if p.Code == "smi:missing" {
				hint = "list and available are for this machine alone; for all hosts: gpuboard status --free"
				if _, err := source.Open(a.source(cfg), ""); err != nil {
					hint += " --from https://gpu.example.org/"
				}
			}
			return failure.New(failure.ExitError, fmt.Errorf("reading the GPUs of this node: %s", p.Message), hint)
		}
	}
	return failure.New(failure.ExitError, errors.New("reading the GPUs of this node: nvidia-smi lists none"), "")
}

// noDriver reports whether this machine has no GPUs of its own.
func noDriver(b *board.Board) bool {
	return slices.ContainsFunc(b.Hosts[0].Problems, func(p snapshot.Problem) bool { return p.Code == "smi:missing" })
}

// sourceKeys are the settings of everything that reads a board.
func sourceKeys() []string {
	return []string{"data", "site", "comments", "aliases", "timezone", "site_timeout",
		"stale_after", "down_after", "clock_tolerance", "free_memory_mib", "free_memory_percent", "no_show_after",
		"service_accounts", "container_uids", "container_people"}
}

// completes completes the value of a flag by these words.
func completes(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completionWait is how long a site may take to answer somebody who waits for a name to be completed.
const completionWait = time.Second

// completeHosts completes names of hosts, as far as a board can be found and read at once.
func (a *app) completeHosts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.load(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	from := ""
	if f := c.Flags().Lookup("from"); f != nil {
		from = f.Value.String()
	}
	s, err := source.Open(a.source(cfg), from)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionWait)
	defer cancel()
	p, err := s.Read(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, h := range p.Board.Hosts {
		if !slices.Contains(args, h.Name) && !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// hostPatterns reads hosts as people type them. In a name, * and ? stand for other characters.
func hostPatterns(args []string) (patterns []string, err error) {
	for _, arg := range args {
		pattern := strings.ToLower(arg)
		if !strings.ContainsAny(arg, "*?[") {
			pattern, err = snapshot.ParseHost(arg)
		} else if _, err = path.Match(pattern, ""); err != nil {
			err = fmt.Errorf("%q is neither a host nor a pattern of hosts", arg)
		}
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, pattern)
	}
	return patterns, nil
}

// matching are the hosts of a board that patterns mean. A pattern that means none stays, so that it is missed.
func matching(b *board.Board, patterns []string) (hosts []string) {
	for _, pattern := range patterns {
		before := len(hosts)
		for i := range b.Hosts {
			if hostMatches(pattern, b.Hosts[i].Name) {
				hosts = append(hosts, b.Hosts[i].Name)
			}
		}
		if len(hosts) == before {
			hosts = append(hosts, pattern)
		}
	}
	return hosts
}

func hostMatches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func (a *app) source(cfg *config.Config) source.Options {
	return source.Options{Config: cfg, Version: version(), Now: a.now}
}

func (a *app) look(cfg *config.Config) text.Options {
	width := a.width(0)
	return text.Options{Width: width, Whole: width == 0, Color: a.colors(), ASCII: !a.unicode(), Zone: cfg.Zone()}
}

func (a *app) colors() bool {
	force := a.getenv("CLICOLOR_FORCE")
	switch {
	case a.getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	case a.getenv("CLICOLOR") == "0" || a.getenv("TERM") == "dumb":
		return false
	}
	return a.terminal()
}

func (a *app) terminal() bool {
	f, ok := a.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns stdout has, and otherwise where that is not known.
func (a *app) width(otherwise int) int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return min(n, 1000)
	}
	if n, _ := a.screen(); n > 0 {
		return min(n, 1000)
	}
	return otherwise
}

// screen is how many columns and lines a terminal has that is stdout; 0 for another file.
func (a *app) screen() (columns, lines int) {
	if f, ok := a.stdout.(*os.File); ok {
		columns, lines, _ = term.GetSize(int(f.Fd()))
	}
	return columns, lines
}

// unicode reports whether the locale can show more than ASCII; an unset one can.
func (a *app) unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(a.getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}
