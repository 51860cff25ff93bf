package collector

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	answers "gpuboard/collector/containers"
	"gpuboard/internal/snapshot"
)

// maxNamespaces limits the namespaces of containerd that are asked.
const maxNamespaces = 16

// Engines returns the programs that know containers. Of those that know the same one, the first is believed.
func Engines() []string { return []string{"docker", "podman", "nerdctl"} }

// AskEngine returns the running containers that an engine knows, asked by its own program within a time. It is not
// for the collector of a node: who may ask an engine can be root. [ErrNotInstalled] is the error where there is none.
func AskEngine(ctx context.Context, engine string, budget time.Duration) ([]answers.Container, error) {
	program, err := resolve(engine)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(budget)
	ask := func(args ...string) ([]byte, error) {
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
		return r.stdout, nil
	}
	namespaces := [][]string{nil}
	if engine == "nerdctl" {
		if namespaces, err = namespacesOf(ask); err != nil {
			return nil, err
		}
	}

	var all []answers.Container
	for _, namespace := range namespaces {
		answer, err := ask(append(namespace, answers.Args()...)...)
		if err != nil {
			return nil, err
		}
		list, err := answers.Parse(answer)
		if err != nil {
			return nil, fmt.Errorf("reading the answer of %s: %w", engine, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// namespacesOf returns the flag for each namespace of containerd: those of Kubernetes, of nerdctl and of others.
func namespacesOf(ask func(...string) ([]byte, error)) (flags [][]string, err error) {
	answer, err := ask("namespace", "ls", "--quiet")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(answer))
	if len(names) > maxNamespaces {
		return nil, fmt.Errorf("nerdctl has %d namespaces, and %d are the most", len(names), maxNamespaces)
	}
	for _, name := range names {
		flags = append(flags, []string{"--namespace=" + name})
	}
	return flags, nil
}
