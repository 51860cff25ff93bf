package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gpuboard/internal/cli"
)

// A shown command is one line of ours that a page tells people to type.
type shownCommand struct {
	where string
	words []string // behind "gpuboard"
}

// TestShownCommandsExist parses every command line of ours that a page, a
// crontab or help itself shows: the command must exist, each flag must be one
// of its own, and it must take that many arguments.
func TestShownCommandsExist(t *testing.T) {
	shown := shownCommands(t)
	if len(shown) < 60 {
		t.Fatalf("only %d command lines were found", len(shown))
	}
	for _, s := range shown {
		if err := parses(s.words); err != nil {
			t.Errorf("%s: gpuboard %s: %v", s.where, strings.Join(s.words, " "), err)
		}
	}
	for _, wrong := range []string{"generate --sight x", "genrate", "check a b", "init web"} {
		if parses(strings.Fields(wrong)) == nil {
			t.Errorf("gpuboard %s passes for right", wrong)
		}
	}
}

func parses(words []string) error {
	root := cli.Root()
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if c == root {
		return root.ParseFlags(rest)
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if help, err := c.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}

func shownCommands(t *testing.T) []shownCommand {
	t.Helper()
	var all []shownCommand
	pages := append(pagesWithCommands(t), "ARCHITECTURE.md")
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, inText(page, codeOf(string(data)))...)
	}
	data, err := os.ReadFile("cron.example")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all,
		inText("cron.example",
			regexp.MustCompile(`(?m)^[0-9*/]+( [0-9*/]+){4} `).ReplaceAllString(string(data), ""))...)
	var examples func(c *cobra.Command)
	examples = func(c *cobra.Command) {
		all = append(all, inText("help of "+c.Name(), c.Example)...)
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" {
				examples(sub)
			}
		}
	}
	examples(cli.Root())
	return all
}

// codeOf is what a page shows as code: indented, fenced, or between backticks
// within a line.
func codeOf(page string) string {
	var b strings.Builder
	fenced := false
	inline := regexp.MustCompile("(There is no )?`(gpuboard [^`]+)`")
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    "):
			b.WriteString(strings.TrimSpace(line) + "\n")
		default:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				switch {
				case m[1] != "":
				case strings.Count(m[2], " ") == 1: // the name of a command, and not a line to type
					b.WriteString(m[2] + " --help\n")
				default:
					b.WriteString(m[2] + "\n")
				}
			}
		}
	}
	return b.String()
}

// placeholder is how a page says that something goes here: [NAME], a|b, ….
var placeholder = regexp.MustCompile(`[\[\]|<>…]|\.\.\.|^[A-Z]+$|-…`)

func inText(where, text string) []shownCommand {
	var all []shownCommand
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		for _, words := range shellCommands(line) {
			if len(words) >= 3 && slices.Equal(words[:3], []string{"go", "run", "."}) {
				words = append([]string{"gpuboard"}, words[3:]...)
			}
			for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
				words = words[1:] // a variable for this one command
			}
			if len(words) < 2 || filepath.Base(words[0]) != "gpuboard" {
				continue
			}
			words = words[1:]
			if slices.ContainsFunc(words,
				func(w string) bool { return strings.ContainsAny(w, "[]…") || strings.Contains(w, "|") }) {
				continue // the form of a command, and no command
			}
			if placeholder.MatchString(words[0]) {
				continue
			}
			all = append(all, shownCommand{where, words})
		}
	}
	return all
}

// shellCommands splits a line into its commands and these into words, as far as
// pages go: quotes, comments, &&, ||, |, ;, and redirections.
func shellCommands(line string) [][]string {
	var all [][]string
	var words []string
	var word strings.Builder
	var quote rune
	started, skip := false, false
	end := func() {
		if started && !skip {
			words = append(words, word.String())
		}
		if started {
			skip = false
		}
		word.Reset()
		started = false
	}
	next := func() {
		end()
		if len(words) > 0 {
			all = append(all, words)
		}
		words, skip = nil, false
	}
scan:
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t' || r == '\n':
			end()
		case r == '#' && !started:
			break scan
		case r == '&' && skip && !started: // >&1
			started = true
		case r == ';' || r == '&' || r == '|' && !strings.Contains(line, "[") || r == '(' || r == ')':
			next()
		case r == '>' || r == '<':
			if s := word.String(); s == "2" || s == "1" {
				word.Reset()
				started = false
			}
			end()
			skip = true // the file that it goes to
		default:
			word.WriteRune(r)
			started = true
		}
	}
	next()
	return all
}

func TestShellCommands(t *testing.T) {
	for line, want := range map[string][][]string{
		`a b 'c d' "e"  # f`:        {{"a", "b", "c d", "e"}},
		`a && b --x=1; c | d`:       {{"a"}, {"b", "--x=1"}, {"c"}, {"d"}},
		`a >/dev/null 2>&1 b`:       {{"a", "b"}},
		`a check [HOST|kill] x`:     {{"a", "check", "[HOST|kill]", "x"}},
		`(crontab -l; cat x) | y -`: {{"crontab", "-l"}, {"cat", "x"}, {"y", "-"}},
		`a # 'b`:                    {{"a"}},
	} {
		if got := shellCommands(line); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}
