package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gpuboard/internal/config"
)

// sampleConfig is a configuration in which every setting of a side stands with
// its default behind a #, and those of set without one. hosts is the part that
// lists them, "" for an example.
func (a *app) sampleConfig(side string, set map[string]string, hosts string) string {
	var b strings.Builder
	what := "a GPU node"
	if side == sideWeb {
		what = "the web host"
	}
	fmt.Fprintf(&b, "# gpuboard on %s. Every setting is here with its default: take the # away, and\n"+
		"# change it. A variable (GPUBOARD_TITLE) counts more than this file, and a flag\n"+
		"# (--title) more than both. \"gpuboard doctor %s\" says what is in force.\n", what, side)
	section := ""
	for _, k := range sectioned(config.Keys()) {
		both := k.Name == "consul.service" || k.Name == "site_url" // people ask on nodes, too
		if slices.Contains(config.NodeKeys(), k.Name) != (side == sideNode) && !both {
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
		fmt.Fprintf(&b, "%s# %s\n", indent, sentence(k))
		value, mark := k.DefaultHere(a.getenv), "#"
		if v, ok := set[k.Name]; ok {
			value, mark = v, ""
		} else if k.Name == "state" || k.Name == "spool" {
			value = k.Default // depends on who runs it
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n", indent, mark, name, yamlScalar(value))
	}
	if side == sideWeb {
		if hosts == "" {
			hosts = `
# Hosts with more than a name, instead of the line above:
#hosts:
#  - name: gpu01
#    title: Vision box
#    group: rack 4
#    owner: vision
#    note: no overnight jobs
#    gpus: 8
#    address: gpu01.example.org
#  - gpu02
`
		}
		b.WriteString(hosts + `
# How the pages call a GPU, by NVIDIA's name for it.
#short_names:
#  NVIDIA A100-SXM4-80GB: A100
`)
	}
	return b.String()
}

// sectioned moves the settings of a section together, behind those without
// one: a section stands in a file once.
func sectioned(all []config.Key) []config.Key {
	var plain, nested []config.Key
	for _, k := range all {
		if strings.Contains(k.Name, ".") {
			nested = append(nested, k)
		} else {
			plain = append(plain, k)
		}
	}
	slices.SortStableFunc(nested, func(x, y config.Key) int {
		xs, _, _ := strings.Cut(x.Name, ".")
		ys, _, _ := strings.Cut(y.Name, ".")
		return strings.Compare(xs, ys)
	})
	return append(plain, nested...)
}

// sentence is what help says, as a sentence.
func sentence(k config.Key) string {
	r := []rune(k.Help)
	r[0] = unicode.ToUpper(r[0])
	return string(r) + "."
}

// yamlScalar writes a value so that it is read back as the same text.
func yamlScalar(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-@+ ", r))
	})
	if plain && strings.TrimSpace(s) == s && s[0] != '-' && s[0] != '@' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
