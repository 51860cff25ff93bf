// Command manpage writes what packages hold beside the program: manual pages
// and completions for bash, zsh and fish.
//
//	manpage DIR VERSION DATE
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpuboard/internal/cli"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "manpage: manpage DIR VERSION DATE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "manpage:", err)
		os.Exit(1)
	}
}

// write makes DIR/man/*.1 and DIR/completions/*.
func write(dir, version, date string) error {
	for _, sub := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	root := cli.Root()
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if c != root && !documented(c) {
			continue
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(dir, "man", name), []byte(page(c, version, date)), 0o644); err != nil {
			return err
		}
	}
	for name, generate := range map[string]func(io.Writer) error{
		"gpuboard.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_gpuboard":     root.GenZshCompletion,
		"gpuboard.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		f, err := os.Create(filepath.Join(dir, "completions", name))
		if err != nil {
			return err
		}
		if err := generate(f); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// documented reports whether a command has a page of its own; cobra's two
// have not.
func documented(c *cobra.Command) bool {
	return c.IsAvailableCommand() && c.Name() != "completion" && c.Name() != "help"
}
