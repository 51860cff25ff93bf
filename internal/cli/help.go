package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	flagsWidth = 100
	// What --help shows fits a terminal of this size.
	screenWidth, screenLines = 80, 24
	// settingOf marks a flag that is a setting, too.
	settingOf = "gpuboard_setting"
)

// helpAll is the value of --help-all: whoever gives the flag wants help, whatever else is typed.
type helpAll bool

// Set implements [pflag.Value].
func (h *helpAll) Set(string) error {
	*h = true
	return pflag.ErrHelp
}

func (h *helpAll) String() string   { return "" }
func (h *helpAll) Type() string     { return "bool" }
func (h *helpAll) IsBoolFlag() bool { return true }

func (a *app) help(c *cobra.Command, _ []string) {
	switch {
	case !c.HasParent():
		fmt.Fprint(c.OutOrStdout(), rootHelp(c))
	case bool(a.helpAll):
		fmt.Fprint(c.OutOrStdout(), fullHelp(c))
	default:
		fmt.Fprint(c.OutOrStdout(), commandHelp(c))
	}
}

func rootHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("gpuboard COMMAND [-h]  " + root.Short + "\n")
	for _, group := range root.Groups() {
		title := group.Title
		var names []string
		for _, c := range root.Commands() {
			switch {
			case c.GroupID != group.ID || c.Name() == "completion" || c.Name() == "help":
			case group.ID == groupNode: // typed once, when a node is set up
				names = append(names, c.Name())
			default:
				fmt.Fprintf(&b, "%-16s %-10s %s\n", title, c.Name(), c.Short)
				title = ""
			}
		}
		if names != nil {
			fmt.Fprintf(&b, "%-16s %s\n", title, strings.Join(names, " "))
		}
	}
	return b.String()
}

// commandHelp fits a screen: examples, and the flags that are no settings, each with the first words of its meaning.
func commandHelp(c *cobra.Command) string {
	var b strings.Builder
	shown := 0
	for line := range strings.Lines(c.Example) {
		if line = strings.TrimSuffix(line, "\n"); shown < 3 && len(line) <= screenWidth {
			b.WriteString(line + "\n")
			shown++
		}
	}
	if shown > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\nUsage: %s\n", strings.ToUpper(c.Short[:1])+strings.TrimSuffix(c.Short[1:], ".")+".",
		c.UseLine())

	var rows [][2]string
	width, settings, last := 0, "", "see "+c.CommandPath()+" --help-all"
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case f.Annotations[settingOf] != nil:
			more := settings + " --" + f.Name
			switch {
			case strings.HasSuffix(settings, "…"):
			case len("Also"+more+" …: "+last) < screenWidth:
				settings = more
			default:
				settings += " …"
			}
		default:
			arg, usage := pflag.UnquoteUsage(f)
			short := "    "
			if f.Shorthand != "" {
				short = "-" + f.Shorthand + ", "
			}
			name := strings.TrimRight(short+"--"+f.Name+" "+arg, " ")
			rows, width = append(rows, [2]string{name, usage}), max(width, len(name))
		}
	})
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			rows, width = append(rows, [2]string{sub.Name(), sub.Short}), max(width, len(sub.Name()))
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n")
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, row[0], firstWords(row[1], screenWidth-width-4))
	}
	if settings != "" {
		last = "Also" + settings + ": " + last
	}
	b.WriteString("\n" + last + "\n")
	return b.String()
}

// firstWords is what a flag means in so many columns: all of it, or what comes before one of its later parts.
func firstWords(usage string, width int) string {
	for len([]rune(usage)) > width || strings.Count(usage, "(") > strings.Count(usage, ")") {
		i := max(strings.LastIndex(usage, " ("), strings.LastIndex(usage, "; "))
		if i < 0 {
			i = strings.LastIndex(usage, ", ")
		}
		if i < 0 {
			break
		}
		usage = usage[:i]
	}
	return usage
}

// fullHelp is everything about a command: its text, exit statuses, flags and settings.
func fullHelp(c *cobra.Command) string {
	var b strings.Builder
	if c.HasExample() {
		b.WriteString(c.Example + "\n\n")
	}
	text := c.Long
	if text == "" {
		text = c.Short
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", strings.TrimSpace(text), c.UseLine())
	var own, settings pflag.FlagSet
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[settingOf] != nil {
			settings.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{
		{"Flags", &own}, {"Settings, which have variables and a file as well (docs/configuration.md)", &settings},
		{"Of every command", c.InheritedFlags()},
	} {
		if part.flags.HasAvailableFlags() {
			b.WriteString("\n" + part.title + ":\n" + part.flags.FlagUsagesWrapped(flagsWidth))
		}
	}
	return b.String()
}
