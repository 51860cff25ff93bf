package cli

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
)

// settingsOf are the settings in force with these variables, and defaults besides.
func settingsOf(t *testing.T, values map[string]string) *config.Config {
	t.Helper()
	env := map[string]string{}
	for name, value := range values {
		env[config.Among(config.Keys(), name).Env()] = value
	}
	cfg, err := config.Load(config.Sources{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestColorsAndUnicodeOfStdout(t *testing.T) {
	for _, c := range []struct {
		env             string
		colors, unicode bool
		width           int
	}{
		{"", false, true, 80},
		{"CLICOLOR_FORCE=1", true, true, 80},
		{"CLICOLOR_FORCE=0", false, true, 80},
		{"CLICOLOR_FORCE=1 NO_COLOR=1", false, true, 80},
		{"CLICOLOR_FORCE=1 TERM=dumb", true, true, 80},
		{"COLUMNS=132 LANG=C", false, false, 132},
		{"COLUMNS=-1 LANG=de_DE.UTF-8", false, true, 80},
		{"COLUMNS=999999 LC_ALL=C LANG=de_DE.UTF-8", false, false, 1000},
		{"LC_CTYPE=en_US.utf8 LANG=C", false, true, 80},
	} {
		a := &app{stdout: &strings.Builder{}, getenv: func(name string) string {
			for pair := range strings.FieldsSeq(c.env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		}}
		if a.colors() != c.colors || a.unicode() != c.unicode || a.width(80) != c.width {
			t.Errorf("%s: colours %v, unicode %v, %d columns", c.env, a.colors(), a.unicode(), a.width(80))
		}
	}
}

func TestDiffLines(t *testing.T) {
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new file", "", "{\n}\n", "+ {\n+ }\n"},
		{"in the middle", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", "  1\n  2\n  3\n- 4\n+ x\n  5\n  6\n  7\n"},
		{"two places", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
			"- a\n+ A\n  1\n  2\n  3\n  ...\n  5\n  6\n  7\n- b\n+ B\n"},
		{"ends of lines", "a\r\nb\r\n", "a\r\nc\r\n", "  a\n- b\n+ c\n"},
		{"Latin-1", "P\xe8re\n", "P\xe8re\nMerc\xe9\n", "  Père\n+ Mercé\n"},
		{"hostile", "", "\x1b[31m\u202e\n", "+ \\x1b[31m\\u202e\n"},
	} {
		if got := diffLines([]byte(tc.before), []byte(tc.after)); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	// Beyond the bound every line is shown, and it does not take long.
	long := strings.Repeat("x\n", 3000)
	if got := diffLines([]byte("a\n"+long), []byte(strings.ReplaceAll(long, "x", "y"))); strings.Count(got,
		"\n- ") != 3000 || strings.Count(got, "+ y") != 3000 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestHelpFitsOneScreen(t *testing.T) {
	root := Root()
	help := rootHelp(root)
	fits(t, "gpuboard", help)
	for _, c := range root.Commands() {
		fits(t, c.Name(), commandHelp(c))
		for _, sub := range c.Commands() {
			fits(t, sub.CommandPath(), commandHelp(sub))
		}
		name := c.Name()
		if name == "help" || name == "completion" {
			continue
		}
		if !slices.Contains(strings.Fields(help), name) {
			t.Errorf("help does not list %s", name)
		}
		if !strings.HasPrefix(commandHelp(c), "  ") ||
			!strings.Contains(strings.SplitN(commandHelp(c), "\n", 2)[0], name) {
			t.Errorf("help of %s does not begin with an example:\n%.200s", name, commandHelp(c))
		}
	}
}

func fits(t *testing.T, name, help string) {
	t.Helper()
	if lines := strings.Count(help, "\n"); lines > screenLines {
		t.Errorf("help of %s has %d lines, and a terminal has %d:\n%s", name, lines, screenLines, help)
	}
	for line := range strings.Lines(help) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > screenWidth {
			t.Errorf("a line of the help of %s has %d characters: %s", name, n, line)
		}
	}
}

// What --help leaves out, --help-all has: the text, the exit statuses, every flag with all of its meaning.
func TestHelpAllLeavesNothingOut(t *testing.T) {
	for _, c := range Root().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		all := ask(t, time.Now(), c.Name(), "--help-all")
		if all.code != 0 || all.stderr != "" || !strings.Contains(all.stdout, strings.TrimSpace(c.Long)) {
			t.Errorf("%s --help-all: %d, %s\n%s", c.Name(), all.code, all.stderr, all.stdout)
		}
		short := ask(t, time.Now(), c.Name(), "--help")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			setting := f.Annotations[settingOf] != nil
			if !f.Hidden && !strings.Contains(all.stdout, " --"+f.Name) {
				t.Errorf("%s --help-all does not have --%s", c.Name(), f.Name)
			}
			if !f.Hidden && !setting && c.LocalFlags().Lookup(f.Name) != nil && f.Name != "help" &&
				!strings.Contains(short.stdout, "--"+f.Name) {
				t.Errorf("%s --help does not have --%s", c.Name(), f.Name)
			}
		})
	}
	if got := ask(t, time.Now(), "release", "--force", "--help-all", "--nonsense"); got.code != 0 ||
		!strings.Contains(got.stdout, "EXIT STATUS") {
		t.Errorf("with other words beside it: %+v", got)
	}
}

// Completion needs no configuration, and offers each name once.
func TestCompletionHasEachNameOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	words := []string{""}
	for _, c := range Root().Commands() {
		words = append(words, c.Name())
	}
	for _, word := range words {
		for _, typed := range []string{"", "-", "--"} {
			args := append([]string{"__complete"}, strings.Fields(word)...)
			got := ask(t, time.Now(), append(args, typed)...)
			if got.code != 0 || strings.Contains(got.stderr, "error") {
				t.Errorf("%v: %d, %s", args, got.code, got.stderr)
			}
			seen := map[string]bool{}
			for line := range strings.Lines(got.stdout) {
				name, _, _ := strings.Cut(line, "\t")
				if seen[name] {
					t.Errorf("%v %q offers %s twice", args, typed, name)
				}
				seen[name] = true
			}
		}
	}
}

// A letter means the same in every command.
func TestShortFlagsMeanOneThing(t *testing.T) {
	long := map[string]string{}
	for _, c := range Root().Commands() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if other := long[f.Shorthand]; f.Shorthand != "" && other != "" && other != f.Name {
				t.Errorf("-%s is --%s and, with %s, --%s", f.Shorthand, other, c.Name(), f.Name)
			}
			long[f.Shorthand] = f.Name
		})
		for letter, name := range map[string]string{"n": "name", "j": "json", "w": "watch", "q": "quiet"} {
			if f := c.LocalFlags().Lookup(name); f != nil && f.Shorthand != letter {
				t.Errorf("%s --%s has no -%s", c.Name(), name, letter)
			}
		}
	}
}

// A loop that somebody started beside a demonstration pushes while its files are removed.
func TestRemoveDemoBesideALoop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	drop := filepath.Join(dir, "drop")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	var loops sync.WaitGroup
	for i := range 4 {
		loops.Go(func() {
			for n, end := 0, time.Now().Add(200*time.Millisecond); time.Now().Before(end); n++ {
				_ = os.WriteFile(filepath.Join(drop, fmt.Sprint(i, n)), nil, 0o644)
			}
		})
	}
	for pushed, _ := os.ReadDir(drop); len(pushed) == 0; pushed, _ = os.ReadDir(drop) {
	}
	if err := removeDemo(dir); err != nil {
		t.Error(err)
	}
	loops.Wait()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the demonstration: %v", err)
	}
}

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
			t.Errorf(
				"%s says something else than the program; go test ./internal/cli -run TestReference -update-docs updates it, and -want +got is\n%s", path, diff)
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

` + "`gpuboard COMMAND --help`" + ` fits a screen; ` +
		"`--help-all`" + ` explains the command in full. Here are examples, and flags that are no settings.
[Settings](configuration.md) that concern a command are flags, too, and every command takes ` + "`--config FILE`" + `.

Results are on stdout and whole in a pipe, messages on stderr. Commands for cron print nothing on success.

*This page is generated: ` + "`go test ./internal/cli -run TestReference -update-docs`" + ` updates it.*

| exit code | meaning |
|---|---|
`)
	for line := range strings.Lines(exitStatus) {
		if code, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			fmt.Fprintf(&b, "| %s | %s |\n", code, strings.TrimSpace(meaning))
		}
	}
	shared := sharedFlags()
	fmt.Fprintf(&b, "\n## Flags of several commands\n\n")
	for _, row := range slices.Sorted(maps.Keys(shared)) {
		b.WriteString(row)
	}
	root := Root()
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && !c.Hidden && c.Name() != "help" {
				documentCommand(&b, c, shared)
			}
		}
	}
	return b.String()
}

// sharedFlags are the rows of the flags that mean the same for several commands.
func sharedFlags() map[string]bool {
	commands := map[string]int{}
	for _, c := range Root().Commands() {
		for _, row := range flagRows(c) {
			commands[row]++
		}
	}
	shared := map[string]bool{}
	for row, n := range commands {
		if n > 1 {
			shared[row] = true
		}
	}
	return shared
}

func documentCommand(b *strings.Builder, c *cobra.Command, shared map[string]bool) {
	fmt.Fprintf(b, "\n### gpuboard %s\n\n", c.Name())
	fmt.Fprintf(b, "%s.\n", strings.ToUpper(c.Short[:1])+strings.TrimSuffix(c.Short[1:], "."))
	if c.Name() == "completion" {
		fmt.Fprintf(b, "\n    gpuboard %s\n", c.Use)
		return // cobra's own words, which a new version may change
	}
	fmt.Fprintln(b)
	if c.Use != c.Name() {
		fmt.Fprintf(b, "    gpuboard %s [flags]\n\n", c.Use)
	}
	for line := range strings.Lines(c.Example) {
		fmt.Fprintf(b, "    %s\n", strings.TrimSpace(line))
	}
	var own []string
	for _, row := range flagRows(c) {
		if !shared[row] {
			own = append(own, row)
		}
	}
	if len(own) > 0 {
		fmt.Fprintf(b, "\n%s", strings.Join(own, ""))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			fmt.Fprintf(b, "\n`gpuboard %s %s`: %s.\n", c.Name(), sub.Use, strings.TrimSuffix(sub.Short, "."))
		}
	}
}

// flagRows are the flags of a command, one row each, without the settings.
func flagRows(c *cobra.Command) []string {
	settings := map[string]bool{}
	for _, k := range config.Keys() {
		settings[k.Flag()] = true
	}
	var rows []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden || settings[f.Name] {
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
		rows = append(rows, fmt.Sprintf("- `%s`: %s\n", name, usage+defaultOf(f)))
	})
	return rows
}

// defaultOf is what to say of a flag's default, where its meaning does not.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]", "0", "false":
		return ""
	}
	if strings.Contains(f.Usage, "(default") {
		return ""
	}
	return " (default: " + f.DefValue + ")"
}

func configurationPage() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Configuration

    gpuboard init web DIR      # writes a file with every setting
    gpuboard doctor            # shows the settings in force, and where each comes from

Every setting has a default. Set it in the configuration file, by a variable, or by a flag; a flag overrides a variable, and
a variable overrides the file. The file is the one that `+"`--config`"+` or `+"`GPUBOARD_CONFIG`"+` names, else
`+"`gpuboard.yml`"+` in the working directory, else `+
		"`/etc/gpuboard/gpuboard.yml`"+`. An unknown name is an error; the message has
its line and a similar name.

A dot is a section in the file. `+"`consul.service`"+` has the flag `+"`--consul-service`"+`, the variable
`+"`GPUBOARD_CONSUL_SERVICE`"+`, and is written so:

    consul:
      service: gpuboard

Other names of flags: %s.

Write durations as 20s, 5m or 24h. Separate the elements of a list by commas, or write a YAML list. Address and token of Consul are
in [Consul's own variables](consul.md#access).

Below, the default of a setting is behind its colon.

*This page is generated: `+"`go test ./internal/cli -run TestReference -update-docs`"+` updates it.*
`, otherFlags())
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
			fmt.Fprintf(&b, "\n## %s\n\n", title)
		}
		fmt.Fprintf(&b, "- `%s` %s\n", strings.TrimSpace(k.Name+": "+k.Default), k.Help)
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

// otherFlags are the settings whose flag has another name than the setting.
func otherFlags() string {
	var all []string
	for _, k := range config.Keys() {
		if usual := strings.NewReplacer(".", "-", "_", "-").Replace(k.Name); k.Flag() != usual {
			all = append(all, fmt.Sprintf("`--%s` is `%s`", k.Flag(), k.Name))
		}
	}
	return strings.Join(all, ", ")
}

// TestListeningWithoutRights: a port that only root may use is said to be one, and not that somebody else has it.
func TestListeningWithoutRights(t *testing.T) {
	refused := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	hint := listenHint(":80", fmt.Errorf("listening: %w", refused))
	if failure.CodeOf(refused) != "listen:address" ||
		!strings.Contains(hint,
			"ports from 1024 on: --listen :8080; for lower ones: sudo setcap cap_net_bind_service=+ep /") {
		t.Errorf("%s: %s", failure.CodeOf(refused), hint)
	}
	taken := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	if hint := listenHint(":80", taken); !strings.Contains(hint, "ss -ltnp") {
		t.Errorf("%s", hint)
	}
}
