// Command sbom writes the list of what is linked into a program, as a CycloneDX
// document, version 1.6: every module with its version, the hash that go.sum
// holds it to, and its licence. The same program gives the same bytes.
//
//	sbom PROGRAM VERSION LICENCES.md >PROGRAM.cdx.json
//
// It reads what the linker wrote into the program, so that nothing is listed
// that is not in it, and takes the time from SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "sbom: sbom PROGRAM VERSION LICENCES.md")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, version, licences string) error {
	raw, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what is in %s: %w", program, err)
	}
	list, err := os.ReadFile(licences)
	if err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	d, err := document(raw, info, version, string(list), time.Unix(epoch, 0))
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// The fields of https://cyclonedx.org/docs/1.6/json/ that there is something to say in.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []choice   `json:"licenses,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	choice struct {
		License license `json:"license"`
	}
	license struct {
		ID string `json:"id"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// standard is the library that every Go program holds; its licence is Go's.
const standard, standardLicence = "pkg:golang/std@", "BSD-3-Clause"

func document(program []byte, info *debug.BuildInfo, version, licences string, at time.Time) (bom, error) {
	sum := sha256.Sum256(program)
	// A number of the document's own, of RFC 9562's version 8: made of the program.
	id := slices.Clone(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	d := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial: fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
	}
	own := component{Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath":
			own.Properties = append(own.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	d.Metadata = metadata{at.UTC().Format(time.RFC3339), own}
	known := map[string]string{}
	for line := range strings.Lines(licences) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			known[strings.TrimSpace(cells[1])+"@"+strings.TrimSpace(cells[2])] = strings.TrimSpace(cells[3])
		}
	}
	golang := strings.TrimPrefix(info.GoVersion, "go")
	d.Components = append(d.Components, component{Type: "library", Ref: standard + golang, Name: "std", Version: golang,
		Licenses: []choice{{license{standardLicence}}}, PURL: standard + golang})
	for _, m := range info.Deps {
		if m.Replace != nil {
			return d, fmt.Errorf("%s is replaced by %s: say so in the list, or do not", m.Path, m.Replace.Path)
		}
		licence := known[m.Path+"@"+m.Version]
		if licence == "" {
			return d, fmt.Errorf("there is no licence of %s@%s in the list", m.Path, m.Version)
		}
		content, err := moduleHash(m.Sum)
		if err != nil {
			return d, fmt.Errorf("reading the hash of %s: %w", m.Path, err)
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		d.Components = append(d.Components, component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version,
			Hashes: []hash{{"SHA-256", content}}, Licenses: []choice{{license{licence}}}, PURL: purl})
	}
	all := dependency{Ref: own.Ref}
	for _, c := range d.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
		d.Dependencies = append(d.Dependencies, dependency{Ref: c.Ref})
	}
	d.Dependencies = append([]dependency{all}, d.Dependencies...)
	return d, nil
}

// moduleHash is Go's "h1:" of a module's files, a SHA-256 in base64, in hex.
func moduleHash(sum string) (string, error) {
	text, ok := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil && (!ok || len(raw) != sha256.Size) {
		err = errors.New("it is no h1: hash")
	}
	return hex.EncodeToString(raw), err
}
