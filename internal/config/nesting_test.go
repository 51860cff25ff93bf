package config_test

import (
	"fmt"
	"strings"
	"testing"

	"gpuboard/internal/config"
	"gpuboard/internal/testenv/costtest"
)

// TestNestingIsBounded: a file that nests too deep, or has too many lines in one mapping, is refused at that place,
// before the parser takes memory with the square of its length.
func TestNestingIsBounded(t *testing.T) {
	const n = 10_000
	steps := func(item string) string {
		var b strings.Builder
		for i := range 140 {
			b.WriteString(strings.Repeat(" ", i) + item + "\n")
		}
		return b.String()
	}
	var keys strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&keys, "\n  k%d: v", i)
	}
	const deep = "lists and mappings are nested more than 16 deep here"
	for _, tt := range []struct{ file, want string }{
		{"hosts: " + strings.Repeat("[", n), "1:23: " + deep},
		{"hosts: " + strings.Repeat("[", n) + strings.Repeat("]", n), "1:23: " + deep},
		{"hosts: " + strings.Repeat("[\n", n), "16:1: " + deep},
		{"hosts: " + strings.Repeat("{", n), "1:23: " + deep},
		{"hosts: " + strings.Repeat("{a: ", n/4), "1:68: " + deep},
		{"hosts: " + strings.Repeat("[a: ", n/4), "1:68: " + deep},
		{"hosts: [" + strings.Repeat("- ", n/2), "1:37: " + deep},
		{"hosts:\n" + strings.Repeat("- ", n/2), "2:33: " + deep},
		{"hosts:\n" + steps("-"), "18:17: " + deep},
		{steps("a:"), "17:18: " + deep},
		{"short_names:" + keys.String(), "4098:8: here are more than 4096 lines of the form key: value"},
	} {
		costtest.Check(t, len(tt.file), 800, func() {
			err := config.Check("gpuboard.yml", []byte(tt.file))
			if err == nil || err.Error() != "gpuboard.yml:"+tt.want {
				t.Errorf("%.20q…: %v; want %s", tt.file, err, tt.want)
			}
		})
	}
}

// TestManyHostsAreNoNesting: long lists and brackets that are closed are not nested.
func TestManyHostsAreNoNesting(t *testing.T) {
	for _, host := range []string{"- a%d\n", "- name: a%d\n  group: b\n", "- {name: a%d, group: b}\n",
		"  - name: a%d\n    title: '[[[['\n"} {
		var file strings.Builder
		file.WriteString("notify:\n  - webhook: https://a.example/x\n    events: [host-down]\nhosts:\n")
		for i := range 5000 {
			fmt.Fprintf(&file, host, i)
		}
		if err := config.Check("gpuboard.yml", []byte(file.String())); err != nil {
			t.Errorf("5,000 hosts as %q: %v", host, err)
		}
	}
}
