package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuboard/internal/failure"
	"gpuboard/internal/spelling"
)

// TestMisspelledSettingsAreSuggested misspells each setting, one letter at a time, and
// expects the place of the first letter and the right name behind it.
func TestMisspelledSettingsAreSuggested(t *testing.T) {
	for _, k := range Keys() {
		section, name, nested := strings.Cut(k.Name, ".")
		if !nested {
			section, name = "", section
		}
		if len(name) < 3 {
			continue
		}
		slips := map[string]string{
			"a letter too few": name[:1] + name[2:], "a letter too many": name + name[len(name)-1:],
			"another letter":        "x" + name[1:],
			"two letters exchanged": name[:1] + name[2:3] + name[1:2] + name[3:],
		}
		for what, slip := range slips {
			if slip == name || known(k.Name, slip) {
				continue
			}
			file, at := slip+": 1\n", "gpuboard.yml:2:1: "
			if nested {
				file, at = section+":\n  "+file, "gpuboard.yml:3:3: "
			}
			_, err := try(t, "# first\n"+file, nil)
			if err == nil {
				t.Errorf("%s, with %s (%s), is accepted", k.Name, what, slip)
				continue
			}
			message := err.Error()
			if !strings.Contains(message, `did you mean "`+k.Name+`"?`) {
				t.Errorf("%s, with %s:\n%s", k.Name, what, message)
			}
			if !strings.Contains(message, at) {
				t.Errorf("%s, with %s, is not at %s:\n%s", k.Name, what, at, message)
			}
		}
	}
}

// known reports whether a slip makes another setting, or one as near.
func known(name, slip string) bool {
	if head, _, ok := strings.Cut(name, "."); ok {
		slip = head + "." + slip
	}
	for _, k := range Keys() {
		if k.Name != name && spelling.Distance(k.Name, slip) <= spelling.Distance(name, slip) {
			return true
		}
	}
	return false
}

func TestErrorsPointAtTheValue(t *testing.T) {
	for _, tt := range []struct{ file, at string }{
		{"every: soon\n", "soon"},
		{"consul:\n    enabled:   perhaps\n", "perhaps"},
		{"lab: \"Tübingen\"\nevery: später\n", "später"},
		{"consul: {service: gpus, enabled: perhaps}\n", "perhaps"},
		{"consul: {service: \"Größe\", enabled: perhaps}\n", "perhaps"},
		{"hosts:\n  - name: a\n    gpus: 8x\n", "8x"},
		{"hosts:\n  - name: a\n    title: {a: b}\n", "{"},
		{"consul: {service: https://a.example/b/c, enabled: perhaps}\n", "perhaps"},
		{"\ufeffevery: soon\n", "soon"},
		{"lab: x\r\nevery: soon\r\n", "soon"},
	} {
		_, err := try(t, tt.file, nil)
		if err == nil {
			t.Errorf("%q is accepted", tt.file)
			continue
		}
		m := place.FindStringSubmatch(err.Error())
		if m == nil {
			t.Errorf("%q: there is no place:\n%v", tt.file, err)
			continue
		}
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		text := []rune(strings.Split(strings.TrimPrefix(tt.file, "\ufeff"), "\n")[line-1])
		if column > len(text) || !strings.HasPrefix(string(text[column-1:]), tt.at) {
			t.Errorf("%q: the place is not that of %s:\n%v", tt.file, tt.at, err)
		}
	}
}

var place = regexp.MustCompile(`gpuboard\.yml:(\d+):(\d+): `)

// FuzzConfiguration: any file is either understood or refused at a place in it,
// in a message that fits a terminal.
func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"title: x\n", "every: soon\n", "consul:\n  servise: x\n", "hosts:\n  - name: a\n    gpus: 8\n",
		"notify:\n  - webhook: https://a.example/x\n    events: [host-*]\n",
		"short_names: {A: B}\n", "- a\n", "a: [\n", "<<: *x\n", "x: &a {b: *a}\n", "? a\n: b\n", "title: !!binary aGk=\n",
		"title: |\n  many\n  lines\n", "---\n---\ntitle: x\n", "\x00", "%YAML 1.2\n---\nlab: x\n",
		strings.Repeat("x", 5000) + ": 1\n", strings.Repeat("[", 3000),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		if strings.TrimSpace(file) == "" {
			return
		}
		_, err := try(t, file, nil)
		if err == nil {
			return
		}
		if failure.Explain(err).Exit != failure.ExitUsage {
			t.Fatalf("%q: %v", file, err)
		}
		if message := err.Error(); !place.MatchString(message) || len(message) > 4000 {
			t.Fatalf("%q: %d bytes of message, without a place: %.300s", file, len(message), message)
		}
	})
}

var advice = regexp.MustCompile(`^(in|below|at the end of) .*?(?::(\d+))? write: (.*)$`)

// TestEdit does what Edit says, to the file that init writes and to others, and reads the value back.
func TestEdit(t *testing.T) {
	env := func(string) string { return "" }
	path := filepath.Join(t.TempDir(), "gpuboard.yml")
	node := Sample(true, map[string]string{"to": "sftp://web/"}, env, "")
	web := Sample(false, nil, env, "notify: []\n")
	for _, test := range []struct{ file, name, value, want string }{
		{node, "register.enabled", "true", "in"},
		{node, "to", "sftp://other/", "in"},
		{node, "site_url", "https://gpu.example.org/", "in"},
		{node, "register.title", "x: y", "in"},
		{web, "consul.enabled", "true", "in"},
		{web, "booking.timezone", "UTC", "in"},
		{web, "timezone", "UTC", "in"},
		{"title: x\n", "base_url", "https://a/", "at the end of"},
		{"title: x\n", "register.enabled", "true", "at the end of"},
		{"consul:\n    tags: [a]\nregister:\n", "consul.enabled", "true", "below"},
		{"consul:\n    tags: [a]\nregister:\n", "register.enabled", "true", "below"},
		{"hosts:\n  - name: a\n    title: b\n", "title", "ours", "at the end of"},
	} {
		if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		read := func() *Config {
			c, err := Load(Sources{Getenv: env, Flag: func(name string) (string, bool) { return path, name == "config" }})
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			return c
		}
		said := read().Edit(test.name, test.value)
		m := advice.FindStringSubmatch(said)
		if m == nil || m[1] != test.want {
			t.Errorf("%s: it says %q", test.name, said)
			continue
		}
		lines := strings.Split(strings.TrimSuffix(test.file, "\n"), "\n")
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "in":
			lines[n-1] = m[3]
		case "below":
			lines = slices.Insert(lines, n, m[3])
		default:
			lines = append(lines, m[3])
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read().String(test.name); got != test.value {
			t.Errorf("%s: after %q it is %q", test.name, said, got)
		}
	}
}
