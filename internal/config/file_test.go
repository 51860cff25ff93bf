package config

import (
	"errors"
	"fmt"
	"maps"
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
		"short_names: {A: B}\n", "- a\n", "a: [\n", "<<: *x\n", "x: &a {b: *a}\n", "? a\n: b\n",
		"title: !!binary aGk=\n",
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
			c, err := Load(
				Sources{Getenv: env, Flag: func(name string) (string, bool) { return path, name == "config" }})
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

// TestMistakesOfYAML: each message names the place and says what to write; a file in which that is done is read.
func TestMistakesOfYAML(t *testing.T) {
	for _, test := range []struct{ broken, want, mended string }{
		{"title: x\ntimezone:UTC\nlab: y\n", `2:9: write a blank behind timezone:`,
			"title: x\ntimezone: UTC\nlab: y\n"},
		{"timezone:UTC\n", `1:9: write a blank behind timezone:`, "timezone: UTC\n"},
		{"booking:\n  form:true\n", `2:7: write a blank behind form:`, "booking:\n  form: true\n"},
		{"booking:\n\tform: true\n", `2:1: here is a tab: write blanks instead`, "booking:\n  form: true\n"},
		{"hosts:\n- a\n-b\n", `3:1: write a blank behind the dash`, "hosts:\n- a\n- b\n"},
		{
			"notify:\n  - mail: a@b.c\nlab: y\nnotify:\n  - mail: d@b.c\n",
			`4:1: notify stands in line 1 already: keep one of the two lines, and below it what is below both`,
			"notify:\n  - mail: a@b.c\n  - mail: d@b.c\nlab: y\n",
		},
		{"title: GPUs: ours\n", `1:8: write the value in quotes, because it has a colon in it`,
			"title: 'GPUs: ours'\n"},
		{"title: @home\n", `1:8: write the value in quotes, because of the sign with which it begins`,
			"title: '@home'\n"},
		{"title: x\n lab: y\n",
			`2:1: this line begins further to the right than the one before: write it below the beginning of that one`,
			"title: x\nlab: y\n"},
		{"title: \"x\nlab: y\n", `1:8: a quote or bracket that begins here, or before, has no end`,
			"title: \"x\"\nlab: y\n"},
		{"hosts: [a, b\n", `1:8: a quote or bracket that begins here, or before, has no end`, "hosts: [a, b]\n"},
		{"timezone: Europe/Berln\n",
			`1:11: timezone: "Europe/Berln" is not a time zone; names are those of the IANA list, such as Europe/Paris or UTC; did you mean "Europe/Berlin"?`, "timezone: Europe/Berlin\n"},
		{"timezone: new york\n",
			`1:11: timezone: "new york" is not a time zone; names are those of the IANA list, such as Europe/Paris or UTC; did you mean "America/New_York"?`, "timezone: America/New_York\n"},
		{"users: initals\n", `1:8: users: "initals" is none of full, initials, hash, none; did you mean "initials"?`,
			"users: initials\n"},
		{"no_help: Fasle\n", `1:10: no_help: "Fasle" is neither true nor false; did you mean "false"?`,
			"no_help: false\n"},
	} {
		if strings.Contains(test.want, "did you mean \"") && strings.Contains(test.want, "zone") &&
			!IsDir("/usr/share/zoneinfo/Europe") {
			continue // this system has no list of the names
		}
		if err := Check("c.yml", []byte(test.broken)); err == nil || err.Error() != "c.yml:"+test.want {
			t.Errorf("%q: %v\nwant c.yml:%s", test.broken, err, test.want)
		}
		if err := Check("c.yml", []byte(test.mended)); err != nil {
			t.Errorf("%q, mended: %v", test.mended, err)
		}
	}
}

// TestLanguages: those that are checked are those that the program has words for, and those of a site.
func TestLanguages(t *testing.T) {
	files, err := filepath.Glob("../../templates/words/*.json")
	if err != nil || len(files) != len(languages()) {
		t.Errorf("there are words in %v, %v", files, err)
	}
	own := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(own, "words"), 0o755),
		os.WriteFile(filepath.Join(own, "words/it.json"), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"german": "de", "Deutsh": "de", "de_DE": "de", "EN-us": "en", "jp": "ja", "FR": "fr", "tlh": "", "x": "",
		"it": "own", "es": "own",
	} {
		flags := map[string]string{"language": said, "templates": own}
		_, err := Load(
			Sources{Getenv: func(string) string { return "" },
				Flag: func(name string) (string, bool) { v, ok := flags[name]; return v, ok }})
		_, rest, near := strings.Cut(fmt.Sprint(err), `did you mean "`)
		switch {
		case (err == nil) != (want == "own"), want == "own":
			if err != nil || want != "own" {
				t.Errorf("%s: %v", said, err)
			}
		case near != (want != ""), near && !strings.HasPrefix(rest, want+`"`):
			t.Errorf("%s: %v, want %q", said, err, want)
		}
	}
}

func TestMisspeltVariables(t *testing.T) {
	got := Misspelt(
		[]string{"GPUBOARD_DATA=x", "GPUBOARD_CONFIG=y", "GPUBOARD_TIMEZON=UTC", "GPUBORD_SITE=z",
			"GPUBOARD_FAKE_SMI=a", "GPUBOARD_TOKEN=b", "GPU_DEVICE_ORDINAL=0", "HOME=/"})
	if want := map[string]string{"GPUBOARD_TIMEZON": "GPUBOARD_TIMEZONE",
		"GPUBORD_SITE": "GPUBOARD_SITE"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
