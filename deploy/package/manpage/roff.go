package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is the manual page of a command in roff, as man(7) has it.
func page(c *cobra.Command, version, date string) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 %s %s \"gpuboard\"\n", quote(strings.ToUpper(name)), quote(date),
		quote("gpuboard "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name), escape(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", escape(c.CommandPath()))
	_, form, _ := strings.Cut(c.Use, " ")
	if c.HasAvailableSubCommands() {
		form = "COMMAND " + form
	}
	fmt.Fprintf(&b, ".RI %s\n", quote(strings.TrimSpace(form+" [flags]")))
	about, exit, _ := strings.Cut(c.Long, "EXIT STATUS\n")
	if about = strings.TrimSpace(about); about != "" {
		b.WriteString(".SH DESCRIPTION\n")
		paragraphs(&b, about)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escape(sub.Name()), escape(sub.Short))
			}
		}
	}
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n")
		for line := range strings.Lines(c.Example) {
			b.WriteString(escape(strings.TrimSpace(line)) + "\n")
		}
		b.WriteString(".fi\n")
	}
	if exit != "" {
		b.WriteString(".SH EXIT STATUS\n")
		for line := range strings.Lines(exit) {
			if code, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escape(code), escape(strings.TrimSpace(meaning)))
			}
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	var others []string
	if parent := c.Parent(); parent != nil {
		others = append(others, parent.CommandPath())
	} else {
		for _, sub := range c.Commands() {
			if documented(sub) {
				others = append(others, sub.CommandPath())
			}
		}
	}
	for i, other := range others {
		others[i] = fmt.Sprintf("\\fB%s\\fR(1)", escape(strings.ReplaceAll(other, " ", "-")))
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return b.String()
}

func paragraphs(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for line := range strings.Lines(paragraph) {
			b.WriteString(escape(strings.TrimSpace(line)) + "\n")
		}
	}
}

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n\\fB")
		if f.Shorthand != "" {
			b.WriteString("\\-" + f.Shorthand + "\\fR, \\fB")
		}
		b.WriteString(escape("--"+f.Name) + "\\fR")
		if arg != "" {
			b.WriteString(" \\fI" + escape(arg) + "\\fR")
		}
		b.WriteString("\n" + escape(usage))
		if d := f.DefValue; d != "" && d != "false" && d != "[]" {
			b.WriteString(escape(" (default " + d + ")"))
		}
		b.WriteString("\n")
	})
}

// escape is text of which roff obeys nothing.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }
