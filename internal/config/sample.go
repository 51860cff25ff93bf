package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
)

// Sample writes a configuration for one side, a node or else a web host. Every
// setting of that side stands in it with its default behind a #, and those of set
// without one. more follows at the end.
func Sample(node bool, set map[string]string, getenv func(string) string, more string) string {
	var b strings.Builder
	what, side := "the web host", "web"
	if node {
		what, side = "a GPU node", "node"
	}
	fmt.Fprintf(&b, "# gpuboard on %s. Every setting is here with its default. To change one,\n"+
		"# remove the # before it. A variable (GPUBOARD_TITLE) overrides this file, and a\n"+
		"# flag (--title) overrides both. \"gpuboard doctor %s\" shows the settings in force.\n", what, side)
	section := ""
	for _, k := range BySection(Keys()) {
		both := k.Name == "consul.service" || k.Name == "site_url" // people ask on nodes, too
		if slices.Contains(NodeKeys(), k.Name) != node && !both {
			continue
		}
		name, indent := k.Name, ""
		if head, tail, ok := strings.Cut(k.Name, "."); ok {
			name, indent = tail, "  "
			if head != section {
				fmt.Fprintf(&b, "\n%s:\n", head)
			}
			section = head
		} else {
			b.WriteString("\n")
		}
		help := []rune(k.Help)
		help[0] = unicode.ToUpper(help[0])
		fmt.Fprintf(&b, "%s# %s.\n", indent, string(help))
		value, mark := k.DefaultHere(getenv), "#"
		if v, ok := set[k.Name]; ok {
			value, mark = v, ""
		} else if k.Name == "state" || k.Name == "spool" {
			value = k.Default // depends on who runs it
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n", indent, mark, name, k.yaml(value))
	}
	return b.String() + more
}

// Edit says where in the file that was read a setting is written, and how: the line that has it, also one behind a # as
// [Sample] writes it, else a line below its section, or at the end.
func (c *Config) Edit(name, value string) string {
	data, _ := os.ReadFile(c.Path) // Load has read it
	section, key, nested := strings.Cut(name, ".")
	if !nested {
		section, key = "", name
	}
	line := key + ": " + Among(Keys(), name).yaml(value)

	within, head, indent := "", 0, "  "
	for n, text := range strings.Split(string(data), "\n") {
		blanks := text[:len(text)-len(strings.TrimLeft(text, " "))]
		word, _, ok := strings.Cut(strings.TrimPrefix(text[len(blanks):], "#"), ":")
		switch {
		case !ok:
		case word == key && within == section && nested == (blanks != ""):
			return fmt.Sprintf("in %s:%d write: %s%s", c.Path, n+1, blanks, line)
		case blanks == "" && text[0] != '#':
			if within = word; !nested {
				within = ""
			}
			if word == section {
				head = n + 1
			}
		case nested && within == section && blanks != "" && head == n:
			indent = blanks
		}
	}
	switch {
	case head > 0:
		return fmt.Sprintf("below %s:%d write: %s%s", c.Path, head, indent, line)
	case nested:
		line = section + ": {" + line + "}"
	}
	return fmt.Sprintf("at the end of %s write: %s", c.Path, line)
}

// BySection puts the settings of each section together, behind those without one.
func BySection(all []Key) []Key {
	section := func(k Key) string {
		if head, _, ok := strings.Cut(k.Name, "."); ok {
			return head
		}
		return ""
	}
	slices.SortStableFunc(all, func(x, y Key) int { return strings.Compare(section(x), section(y)) })
	return all
}

// yaml writes a value of a key for the file.
func (k Key) yaml(value string) string {
	if value != "" && (k.Kind == Boolean || k.Kind == number) {
		return value
	}
	return Quote(value)
}

// Quote writes a text so that YAML reads the same text back.
func Quote(s string) string {
	quoted, err := yaml.Marshal(s)
	if err != nil || strings.Count(string(quoted), "\n") != 1 { // a block of several lines
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strings.TrimSuffix(string(quoted), "\n")
}
