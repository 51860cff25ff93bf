package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/config"
)

var updateDocs = flag.Bool("update-docs", false, "update docs/commands.md and docs/configuration.md")

// TestReference holds the two pages of the reference to the program.
func TestReference(t *testing.T) {
	for name, text := range map[string]string{"commands.md": commandsPage(), "configuration.md": configurationPage()} {
		path := filepath.Join("..", "..", "docs", name)
		if *updateDocs {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(have)); diff != "" {
			t.Errorf("%s says something else than the program; go test ./internal/cli -run TestReference -update-docs updates it, and -want +got is\n%s", path, diff)
		}
	}
}

// TestReferenceIsTheSameEverywhere looks for what depends on who writes it.
func TestReferenceIsTheSameEverywhere(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{commandsPage(), configurationPage()} {
		for _, word := range []string{"`" + name + "`", os.Getenv("HOME") + "/", os.TempDir() + "/"} {
			if strings.Contains(text, word) {
				t.Errorf("it says %s", word)
			}
		}
	}
}

// TestEverySettingIsAFlag sees that no setting is left out of every command.
func TestEverySettingIsAFlag(t *testing.T) {
	flags := map[string]bool{}
	for _, c := range Root().Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	}
	for _, k := range config.Keys() {
		if !flags[k.Flag()] {
			t.Errorf("no command has --%s", k.Flag())
		}
	}
}

func commandsPage() string {
	var b strings.Builder
	b.WriteString(`# Commands

The result is on stdout, messages are on stderr. Commands for cron print nothing on success.

Every command has the flag ` + "`--config FILE`" + ` (default: ` + "`GPUBOARD_CONFIG`" + `, else ./gpuboard.yml, else
/etc/gpuboard/gpuboard.yml). Most other flags can also be set in that file, or by a variable: see
[configuration.md](configuration.md).

*This page is generated: ` + "`go test ./internal/cli -run TestReference -update-docs`" + ` updates it.*

| exit code | meaning |
|---|---|
`)
	for line := range strings.Lines(exitStatus) {
		if code, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			fmt.Fprintf(&b, "| %s | %s |\n", code, strings.TrimSpace(meaning))
		}
	}
	root := Root()
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && !c.Hidden {
				documentCommand(&b, c)
			}
		}
	}
	return b.String()
}

func documentCommand(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### gpuboard %s\n\n", c.Name())
	long := strings.TrimSpace(strings.Split(c.Long, exitStatus)[0])
	fmt.Fprintf(b, "%s.\n", strings.ToUpper(c.Short[:1])+strings.TrimSuffix(c.Short[1:], "."))
	if c.Name() == "completion" || c.Name() == "help" {
		fmt.Fprintf(b, "\n    gpuboard %s\n", c.Use)
		return // cobra's own words, which a new version may change
	}
	if long != "" {
		fmt.Fprintf(b, "\n%s\n", long)
	}
	fmt.Fprintf(b, "\n    gpuboard %s [flags]\n", c.Use)
	if c.Example != "" {
		fmt.Fprintf(b, "\nFor instance:\n\n")
		for line := range strings.Lines(c.Example) {
			fmt.Fprintf(b, "    %s\n", strings.TrimSpace(line))
		}
	}
	if flags := flagTable(c); flags != "" {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", flags)
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			fmt.Fprintf(b, "\n`gpuboard %s %s`: %s.\n", c.Name(), sub.Use, strings.TrimSuffix(sub.Short, "."))
			if flags := flagTable(sub); flags != "" {
				fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", flags)
			}
		}
	}
}

func flagTable(c *cobra.Command) string {
	var b strings.Builder
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if arg != "" {
			name += " " + arg
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, quoted(f.DefValue), tableCell(usage))
	})
	return b.String()
}

func configurationPage() string {
	var b strings.Builder
	b.WriteString(`# Configuration

    gpuboard init web DIR      # writes a file with every setting
    gpuboard doctor            # shows the settings in force, and where each comes from

Every setting has a default. Set it in the configuration file, by a variable, or by a flag; a flag overrides a variable, and
a variable overrides the file. The file is the one that ` + "`--config`" + ` or ` + "`GPUBOARD_CONFIG`" + ` names, else
` + "`gpuboard.yml`" + ` in the working directory, else ` + "`/etc/gpuboard/gpuboard.yml`" + `. An unknown name is an error; the message has
its line and a similar name.

A dot is a section in the file: write ` + "`consul.service`" + ` as

    consul:
      service: gpuboard

Write durations as 20s, 5m or 24h. Separate the elements of a list by commas, or write a YAML list. Address and token of Consul are
in [Consul's own variables](consul.md#access).

*This page is generated: ` + "`go test ./internal/cli -run TestReference -update-docs`" + ` updates it.*
`)
	section := "-"
	for _, k := range config.BySection(config.Keys()) {
		head, _, nested := strings.Cut(k.Name, ".")
		if !nested {
			head = ""
		}
		if head != section {
			section = head
			title := section
			if title == "" {
				title = "General"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| in the file | flag, variable | default | meaning |\n|---|---|---|---|\n", title)
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` `%s` | %s | %s |\n", k.Name, k.Flag(), k.Env(), quoted(k.Default), tableCell(k.Help))
	}
	b.WriteString(`
## Only in the file

Details of hosts:

    hosts:
      - name: gpu01
        title: Vision box
        group: rack 4
        owner: vision
        note: no overnight jobs
        gpus: 8
        address: gpu01.example.org
        maintenance: new fans      # takes the host out of service, with this reason
      - gpu02

Short names of GPUs, by the driver's names:

    short_names:
      NVIDIA A100-SXM4-80GB: A100
`)
	return b.String()
}

func quoted(s string) string {
	if s == "" || s == "[]" {
		return ""
	}
	return "`" + s + "`"
}

// tableCell is text as a cell of a table takes it.
func tableCell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
