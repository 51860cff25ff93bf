package e2e

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type sbomComponent struct {
	Type, Name, Version, PURL string
	Ref                       string `json:"bom-ref"`
	Hashes                    []struct{ Alg, Content string }
	Licenses                  []struct{ License struct{ ID string } }
}

type sbomDocument struct {
	BomFormat, SpecVersion, SerialNumber string
	Version                              int
	Metadata                             struct {
		Timestamp string
		Component sbomComponent
	}
	Components   []sbomComponent
	Dependencies []struct {
		Ref       string
		DependsOn []string
	}
}

// TestBillOfMaterials: the list names exactly the modules that are in the
// program, each in its version, with the hash of go.sum and the licence that
// its own text is; and the document is what its format asks for.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "gpuboard")
	mustRun(t, ".", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	sbom := filepath.Join(t.TempDir(), "sbom")
	mustRun(t, "tools", nil, "go", "build", "-o", sbom, "./sbom")
	write := func() string {
		return mustRun(t, ".", []string{"SOURCE_DATE_EPOCH=1795000000"}, sbom, program, "1.2.3",
			"deploy/package/licences.md")
	}
	text := write()
	if again := write(); again != text {
		t.Error("written twice, it differs")
	}
	var d sbomDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}

	// What the schema of CycloneDX 1.6 requires.
	if d.BomFormat != "CycloneDX" || d.SpecVersion != "1.6" || d.Version < 1 ||
		d.Metadata.Timestamp != "2026-11-18T11:06:40Z" {
		t.Errorf("the document is %s %s, version %d, of %s", d.BomFormat, d.SpecVersion, d.Version,
			d.Metadata.Timestamp)
	}
	if !regexp.MustCompile(
		`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(d.SerialNumber) {
		t.Errorf("serial number %q", d.SerialNumber)
	}
	refs := map[string]bool{}
	all := append([]sbomComponent{d.Metadata.Component}, d.Components...)
	for _, c := range all {
		if !slices.Contains([]string{"application", "library"}, c.Type) || c.Name == "" || c.Version == "" ||
			c.Ref == "" || refs[c.Ref] {
			t.Errorf("component %+v", c)
		}
		refs[c.Ref] = true
		for _, h := range c.Hashes {
			if h.Alg != "SHA-256" || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(h.Content) {
				t.Errorf("%s: hash %+v", c.Name, h)
			}
		}
	}
	if len(d.Dependencies) != len(all) || len(d.Dependencies[0].DependsOn) != len(d.Components) {
		t.Errorf("%d dependencies of %d components", len(d.Dependencies), len(all))
	}
	for _, dep := range d.Dependencies {
		for _, ref := range append(dep.DependsOn, dep.Ref) {
			if !refs[ref] {
				t.Errorf("a dependency on %s, which is not there", ref)
			}
		}
	}

	// What is in the program.
	sum := sha256.Sum256(raw)
	if c := d.Metadata.Component; c.Name != info.Main.Path || c.Version != "1.2.3" || len(c.Hashes) != 1 ||
		c.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("the program is %+v", c)
	}
	listed := map[string]sbomComponent{}
	for _, c := range d.Components {
		listed[c.Name+" "+c.Version] = c
	}
	if std := listed["std "+strings.TrimPrefix(info.GoVersion, "go")]; std.PURL == "" {
		t.Errorf("the standard library of %s is not listed", info.GoVersion)
	}
	sums := goSums(t)
	dirs := moduleDirs(t)
	for _, m := range info.Deps {
		c, ok := listed[m.Path+" "+m.Version]
		if !ok {
			t.Errorf("%s %s is in the program and not in the list", m.Path, m.Version)
			continue
		}
		delete(listed, m.Path+" "+m.Version)
		if c.PURL != "pkg:golang/"+m.Path+"@"+m.Version {
			t.Errorf("%s: purl %s", m.Path, c.PURL)
		}
		if want := sums[m.Path+" "+m.Version]; len(c.Hashes) != 1 || want == "" || c.Hashes[0].Content != want {
			t.Errorf("%s: hashes %+v, and go.sum has %s", m.Path, c.Hashes, want)
		}
		if want := licenceIn(dirs[m.Path]); len(c.Licenses) != 1 || c.Licenses[0].License.ID != want {
			t.Errorf("%s: licences %+v, and the text in %s is %s", m.Path, c.Licenses, dirs[m.Path], want)
		}
	}
	if len(listed) != 1 { // the standard library
		t.Errorf("listed, and not in the program: %v", listed)
	}

	// A module that nobody knows the licence of is no list.
	bare := filepath.Join(t.TempDir(), "licences.md")
	if err := os.WriteFile(bare, []byte("| github.com/spf13/cobra | v0.0.1 | MIT |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(sbom, program, "1.2.3", bare)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795000000")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "no licence") {
		t.Errorf("without licences: %v\n%s", err, out)
	}
}

// goSums is what go.sum holds modules to, in hex.
func goSums(t *testing.T) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for line := range strings.Lines(mustReadFile(t, "go.sum")) {
		fields := strings.Fields(line)
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(fields[2], "h1:"))
		if err != nil {
			t.Fatal(err)
		}
		sums[fields[0]+" "+fields[1]] = hex.EncodeToString(raw)
	}
	return sums
}

// moduleDirs is where the sources lie that the program was built of.
func moduleDirs(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for line := range strings.Lines(mustRun(t, ".", nil, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}", "all")) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[path] = dir
		}
	}
	return dirs
}

// licenceIn tells a licence by words that the others have not, where a module
// has its text; "" where there is none, or none that is known here.
func licenceIn(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "[LC][IiOo][CcPp][EeYy]*"))
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		text := strings.Join(strings.Fields(string(raw)), " ")
		switch {
		case strings.Contains(text, "Mozilla Public License"):
			return "MPL-2.0"
		case strings.Contains(text, "Apache License") && strings.Contains(text, "Version 2.0"):
			return "Apache-2.0"
		case strings.Contains(text, "Permission is hereby granted, free of charge"):
			return "MIT"
		case strings.Contains(text, "Redistribution and use in source and binary forms"):
			if regexp.MustCompile(`(?i)neither the name`).MatchString(text) {
				return "BSD-3-Clause"
			}
			return "BSD-2-Clause"
		}
	}
	return ""
}
