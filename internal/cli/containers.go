package cli

import (
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
				return failure.Usage("gpuboard containers "+strings.Join(all, " "), "there is no engine %q", engines[unknown])
			case timeout <= 0:
				return failure.Usage("gpuboard containers --timeout 10s", "--timeout: %s is no time to answer in", timeout)
			}
			file := containers.File{At: a.now().UTC().Truncate(time.Second)}
			answers, failed, err := a.askEngines(c.Context(), engines, timeout, &file)
			if err != nil {
				return err
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
			switch {
			case len(answers) > 0:
				fmt.Fprintln(a.stdout, strings.Join(answers, ", "))
			case !failed:
				fmt.Fprintln(a.stdout, "no engine is installed:", strings.Join(all, ", "))
			}
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

// askEngines puts what the engines answer into a file, and says what those did that do not. Without names it asks
// those that are installed.
func (a *app) askEngines(
	ctx context.Context, named []string, timeout time.Duration, file *containers.File,
) (answers []string, failed bool, err error) {
	engines := named
	if len(named) == 0 {
		engines = collector.Engines()
	}
	file.Containers = []containers.Container{}
	known := map[string]bool{}
	for _, engine := range engines {
		list, err := collector.AskEngine(ctx, engine, timeout)
		missing := errors.Is(err, collector.ErrNotInstalled)
		switch {
		case ctx.Err() != nil:
			return nil, false, failure.New(failure.ExitTryAgain, errors.New("interrupted"), "")
		case missing && len(named) == 0:
			continue
		case err != nil:
			failed = true
			hint := engine + " ps    (to leave it out, name the others: gpuboard containers ENGINE)"
			if missing {
				hint = "gpuboard containers    (asks what is installed)"
			}
			fmt.Fprintf(a.stderr, "gpuboard: warning: %s\ngpuboard: hint: %s\n", failure.Printable(err.Error()), hint)
			continue
		}
		answers = append(answers, engine+": "+board.Number(len(list), "container"))
		for _, c := range list {
			if !known[c.ID] && len(known) < containers.MaxContainers {
				known[c.ID], file.Containers = true, append(file.Containers, c)
			}
		}
	}
	return answers, failed, nil
}
