package collector

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	answers "gpuboard/collector/containers"
	"gpuboard/internal/snapshot"
)

// Engines returns the programs that know containers. Of those that know the same one, the first is believed.
func Engines() []string { return []string{"docker", "podman", "nerdctl"} }

// AskEngine returns the running containers that an engine knows, by id, asked by its own program within a time. It is
// not for the collector of a node: who may ask an engine can be root. [ErrNotInstalled] is the error where there is
// none.
func AskEngine(ctx context.Context, engine string, budget time.Duration) (map[string]answers.Container, error) {
	program, err := resolve(engine)
	if err != nil {
		return nil, err
	}
	runs := [][]string{answers.Args()}
	if engine == "nerdctl" { // containerd keeps those of Kubernetes apart
		runs = [][]string{
			append([]string{"--namespace=default"}, answers.Args()...),
			append([]string{"--namespace=k8s.io"}, answers.Args()...),
		}
	}

	until := time.Now().Add(budget)
	all := map[string]answers.Container{}
	for _, args := range runs {
		// The environment may say where the engine listens.
		r := execute(ctx, program, args, append(os.Environ(), "LC_ALL=C"), max(time.Until(until), 0), answers.MaxBytes)
		switch {
		case r.err != nil:
			return nil, r.err
		case r.timedOut:
			return nil, fmt.Errorf("%s did not answer within %s and was ended", engine, budget)
		case r.cut:
			return nil, fmt.Errorf("%s wrote more than %d bytes", engine, answers.MaxBytes)
		case r.exit != 0:
			said, _, _ := bytes.Cut(bytes.TrimSpace(r.stderr), []byte("\n"))
			message := snapshot.Text(string(said), snapshot.MaxTextBytes)
			return nil, fmt.Errorf("%s ended with status %d: %s", engine, r.exit, message)
		}
		if err := answers.Parse(r.stdout, all); err != nil {
			return nil, fmt.Errorf("reading the answer of %s: %w", engine, err)
		}
	}
	return all, nil
}
