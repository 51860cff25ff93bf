package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const flagsWidth = 100

func (a *app) help(c *cobra.Command, _ []string) {
	if c.HasParent() {
		fmt.Fprint(c.OutOrStdout(), commandHelp(c))
		return
	}
	fmt.Fprint(c.OutOrStdout(), rootHelp(c))
}

func rootHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("gpuboard COMMAND [-h]  " + root.Short + "\n")
	for _, group := range root.Groups() {
		title := group.Title
		for _, c := range root.Commands() {
			if c.GroupID != group.ID || slices.Contains(unlisted(), c.Name()) {
				continue
			}
			fmt.Fprintf(&b, "%-16s %-10s %s\n", title, c.Name(), c.Short)
			title = ""
		}
	}
	return b.String()
}

// unlisted are the commands that have no line of their own, so that the list fits a terminal: those that cobra makes, and
// those that another's line names.
func unlisted() []string { return []string{"completion", "help", "deregister", "accept"} }

func commandHelp(c *cobra.Command) string {
	if !c.HasExample() { // completion, which cobra makes
		return strings.TrimSpace(c.Long) + "\n\n" + c.UsageString()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\nUsage:\n  %s\n", c.Example, strings.TrimSpace(cmp.Or(c.Long, c.Short)), c.UseLine())
	if c.HasAvailableLocalFlags() {
		b.WriteString("\nFlags:\n" + c.LocalFlags().FlagUsagesWrapped(flagsWidth))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString("\nOf every command:\n" + c.InheritedFlags().FlagUsagesWrapped(flagsWidth))
	}
	return b.String()
}
