package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/collector"
	"gpuboard/collector/containers"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/failure"
)

func (a *app) containersCommand() *cobra.Command {
	var out string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "containers [ENGINE]...", Short: "note whose containers run here (for root's cron)", GroupID: groupNode,
		Long: "containers asks docker, podman and nerdctl, or the engines that are named, for the running\n" +
			"containers. It writes their names and what their labels say into a file: who uses one\n" +
			"(gpuboard.user, hub.jupyter.org/username), its pod, and the folder of compose or of a\n" +
			"devcontainer. The collector reads the file. It asks no engine, because who may ask one can\n" +
			"become root, so root runs this by cron. An engine that is not installed is left out. If one\n" +
			"does not answer, the file has none of its containers, and the exit status is 3.\n" + exitStatus,
		Example: "  gpuboard containers\n  gpuboard containers docker --timeout 20s\n" +
			"  gpuboard containers --out containers.json",
		ValidArgs: collector.Engines(),
		RunE: func(c *cobra.Command, engines []string) error {
			all := collector.Engines()
			unknown := slices.IndexFunc(engines, func(name string) bool { return !slices.Contains(all, name) })
			switch {
			case unknown >= 0:
				return failure.Usage("gpuboard containers "+strings.Join(all, " "), "there is no engine %q",
					engines[unknown])
			case timeout <= 0:
				return failure.Usage("gpuboard containers --timeout 10s", "--timeout: %s is no time to answer in",
					timeout)
			}
			file := containers.File{At: a.now().UTC().Truncate(time.Second),
				Containers: map[string]containers.Container{}}
			answers, failed := a.askEngines(c.Context(), engines, timeout, file.Containers)
			if c.Context().Err() != nil {
				return failure.New(failure.ExitTryAgain, errors.New("interrupted"), "")
			}
			data, err := json.Marshal(file)
			if err != nil {
				return err
			}
			if err := atomicfile.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				return err
			}
			if _, err := atomicfile.Write(out, append(data, '\n'), 0o644); err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, cmp.Or(strings.Join(answers, ", "), "no engine answered: "+strings.Join(all, ", ")))
			if failed {
				return silent(failure.ExitDegraded)
			}
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", containers.Path, "`FILE` to write; "+
		"the collector reads the default alone, and believes it if only root can change it")
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "`DURATION` in which each engine has to answer")
	return c
}

// askEngines adds what the engines answer, and says what those did that do not. Without names it asks those that are
// installed.
func (a *app) askEngines(
	ctx context.Context, named []string, timeout time.Duration, into map[string]containers.Container,
) (answers []string, failed bool) {
	engines := named
	if len(named) == 0 {
		engines = collector.Engines()
	}
	for _, engine := range engines {
		known, err := collector.AskEngine(ctx, engine, timeout)
		switch {
		case errors.Is(err, collector.ErrNotInstalled) && len(named) == 0:
		case err != nil:
			failed = true
			hint := engine + " ps    (to leave it out, name the others: gpuboard containers ENGINE)"
			fmt.Fprintf(a.stderr, "gpuboard: warning: %s\ngpuboard: hint: %s\n", failure.Printable(err.Error()), hint)
		default:
			answers = append(answers, engine+": "+board.Number(len(known), "container"))
			for id, c := range known {
				if _, other := into[id]; !other {
					into[id] = c
				}
			}
		}
	}
	return answers, failed
}
