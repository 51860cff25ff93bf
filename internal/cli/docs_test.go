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

var updateDocs = flag.Bool("update-docs", false, "write docs/commands.md and docs/configuration.md anew")

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
			t.Errorf("%s says something else than the program; go test ./internal/cli -run TestReference -update-docs writes it anew, and -want +got is\n%s", path, diff)
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

*Written by the program itself: ` + "`go test ./internal/cli -run TestReference -update-docs`" + ` makes this page anew.*

stdout is what was asked for, stderr the rest; what goes well under cron is silent. ` + "`--config FILE`" + `
(` + "`GPUBOARD_CONFIG`" + `; else ./gpuboard.yml, then /etc/gpuboard/gpuboard.yml) is a flag of every command.
[configuration.md](configuration.md) lists the settings that are flags, variables and lines of that file alike.

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

*Written by the program itself: ` + "`go test ./internal/cli -run TestReference -update-docs`" + ` makes this page anew.*

Every setting has a default that works. What is to be different goes into a file, a variable or a flag; each
counts more than the one before it. The file is the one that ` + "`--config`" + ` or ` + "`GPUBOARD_CONFIG`" + ` names, else
` + "`gpuboard.yml`" + ` in the working directory, else ` + "`/etc/gpuboard/gpuboard.yml`" + `; there may be none. A name that nobody
knows is an error, with its place and the name that was probably meant.

    gpuboard init web DIR      # a file with every setting in it
    gpuboard doctor            # what is in force, and from where

In the file, a dot is a section: ` + "`consul.service`" + ` is written

    consul:
      service: gpuboard

Where no default is given here, help says what happens then. Durations are written as 20s, 5m or 24h; lists with
commas, or in the file as YAML lists. Where Consul is, and its token, stand in Consul's own variables
(` + "`CONSUL_HTTP_ADDR`, `CONSUL_HTTP_TOKEN_FILE`" + ` and so on).
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
				title = "Without a section"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| in the file | flag, variable | default | meaning |\n|---|---|---|---|\n", title)
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` `%s` | %s | %s |\n", k.Name, k.Flag(), k.Env(), quoted(k.Default), tableCell(k.Help))
	}
	b.WriteString(`
## In the file alone

Hosts may have more than a name:

    hosts:
      - name: gpu01
        title: Vision box
        group: rack 4
        owner: vision
        note: no overnight jobs
        gpus: 8
        address: gpu01.example.org
        maintenance: new fans      # the reason; leave it out otherwise
      - gpu02

How the pages call a GPU, by NVIDIA's name for it:

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
