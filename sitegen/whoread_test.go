package sitegen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

func hostNamed(b *board.Board, name string) *board.Host {
	return &b.Hosts[slices.IndexFunc(b.Hosts, func(h board.Host) bool { return h.Name == name })]
}

func whoFiles(t *testing.T, b *board.Board) map[string]string {
	t.Helper()
	in := render.Input{
		Board: b, History: &render.History{Fleet: &render.FleetPast{}},
		Site: render.Site{Lab: "Lab", Zone: time.UTC, Interval: 20 * time.Second, Compat: []string{"all"}},
	}
	all := map[string]string{}
	files, err := boardtest.Files(in,
		func(in render.Input) error { return errors.Join(page.Files(in, nil), data.Files(in)) })
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all[f.Path] = string(f.Content)
	}
	return all
}

// whoOnPage returns who is on the first GPU of a host's page.
func whoOnPage(t *testing.T, content string) string {
	t.Helper()
	m := regexp.MustCompile(`(?s)<td class="gpu-user[^"]*">(.*?)</td>`).FindStringSubmatch(content)
	if m == nil {
		t.Fatal("no row has who is on it")
	}
	before, _, _ := strings.Cut(m[1], "<details")
	return whoNamed(before)
}

// whoNamed returns the first person or unknown user that is named.
func whoNamed(content string) string {
	named := regexp.MustCompile(`(?s)<(?:b|a)[^>]*class="name"[^>]*>(.*?)</(?:b|a)>`).FindStringSubmatch(content)
	if named == nil {
		return ""
	}
	return html.UnescapeString(named[1])
}

// whoLines returns the people on the line of each host of the front page, and what the search finds a host's GPU by.
func whoLines(t *testing.T, content string) (lines, search map[string]string) {
	t.Helper()
	lines, search = map[string]string{}, map[string]string{}
	for _, m := range regexp.MustCompile(
		`(?s)<li id="([^"]*)"[^>]*class="host.*?<span class="users">([^<]*)<`,
	).FindAllStringSubmatch(content, -1) {
		lines[m[1]] = html.UnescapeString(strings.TrimSpace(m[2]))
	}
	var found struct {
		Hosts []struct {
			ID   string
			GPUs [][]any
		}
	}
	script := regexp.MustCompile(`(?s)<script id="_gpus"[^>]*>(.*?)</script>`).FindStringSubmatch(content)
	if script == nil {
		t.Fatal("the front page has nothing to search")
	}
	if err := json.Unmarshal([]byte(script[1]), &found); err != nil {
		t.Fatal(err)
	}
	for _, h := range found.Hosts {
		if len(h.GPUs[0]) > 3 {
			search[h.ID] = h.GPUs[0][3].(string)
		}
	}
	return lines, search
}

func whoMatches(content, expression string) []string {
	var found []string
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(content, -1) {
		found = append(found, html.UnescapeString(m[1]))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// placeCases are programs of somebody and of nobody, with the words by which they are known.
func placeCases() (cases []whoCase, words []string) {
	const box = "a1b2c3d4e5f6"
	ada := []snapshot.Claim{{User: "ada", Source: snapshot.ByLabel}}
	for word, place := range map[string]snapshot.Process{
		"ollama.service": {Unit: "ollama.service"},
		"ml-team/eval-0": {Container: box, Pod: "ml-team/eval-0"},
		"4711":           {Job: "4711"},
		"vllm_llama-70b": {Container: box, ContainerName: "vllm_llama-70b"},
	} {
		place.User, place.UID, place.Type, place.Program = "root", new(int64(0)), snapshot.Compute, "python3"
		somebodys := place
		somebodys.Claims = ada
		cases = append(cases, whoCase{name: "nobodys " + word[:2], p: place, used: 20000},
			whoCase{name: "somebodys " + word[:2], p: somebodys, used: 20000, person: "ada"})
		words = append(words, word, word)
	}
	return cases, words
}

// The search of the front page, the host's page, text and JSON find a unit, a pod, a Slurm job and a container by its
// name, whether or not somebody is known there. A masked site names none.
func TestPlacesAreFound(t *testing.T) {
	cases, words := placeCases()
	b, _ := whoBoard(cases, time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC))
	files := whoFiles(t, b)
	_, search := whoLines(t, files["index.html"])
	for i, c := range cases {
		var detail bytes.Buffer
		if err := text.Status(&detail, b,
			text.Options{Width: 300, Detail: true, Hosts: []string{c.host()}}); err != nil {
			t.Fatal(err)
		}
		for face, said := range map[string]string{
			"the search": search[c.host()], "the host's page": files["hosts/"+c.host()+"/index.html"],
			"text": detail.String(),
			"JSON": files["api/v1/hosts/"+c.host()+".json"],
		} {
			if !strings.Contains(said, words[i]) {
				t.Errorf("%s: %s does not say %s:\n%.2000s", c.name, face, words[i], said)
			}
		}
	}
	for _, mask := range []board.Privacy{{Users: board.UsersNone}, {Users: board.UsersHash},
		{Users: board.UsersInitials}} {
		for path, content := range whoFiles(t, b.Mask(mask)) {
			at := slices.IndexFunc(words, func(word string) bool { return strings.Contains(content, word) })
			if at >= 0 && !strings.HasPrefix(path, "assets/") {
				t.Errorf("%s of a masked site (%s) says %s", path, mask.Users, words[at])
			}
		}
	}
}

// The host's page and text say in the same words by what somebody is known, and which two sources disagree.
func TestSourcesAreNamed(t *testing.T) {
	root := func(claims ...snapshot.Claim) snapshot.Process {
		return snapshot.Process{
			User: "root", UID: new(int64(0)), Type: snapshot.Compute, Program: "python3", Container: "a1b2c3d4e5f6",
			Claims: claims,
		}
	}
	session, label := snapshot.Claim{User: "ada", Source: snapshot.BySession}, snapshot.Claim{User: "bea",
		Source: snapshot.ByLabel}
	home := snapshot.Claim{User: "bea", Source: snapshot.ByHome}
	want := map[string]string{
		"certain":     "ada, by the login session",
		"likely":      "bea?, by the home that the container can write",
		"conflicting": "contradictory: ada, by the login session; bea, by the label of the container",
	}
	cases := []whoCase{
		{name: "certain", p: root(session), used: 20000},
		{name: "likely", p: root(home), used: 20000},
		{name: "conflicting", p: root(session, label), used: 20000},
	}
	b, _ := whoBoard(cases, time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC))
	files := whoFiles(t, b)
	for _, c := range cases {
		var detail bytes.Buffer
		if err := text.Status(&detail, b,
			text.Options{Width: 300, Detail: true, Hosts: []string{c.host()}}); err != nil {
			t.Fatal(err)
		}
		page := html.UnescapeString(files["hosts/"+c.host()+"/index.html"])
		for face, said := range map[string]string{"the host's page": page, "text": detail.String()} {
			if !strings.Contains(said, want[c.name]) {
				t.Errorf("%s does not say %q:\n%.3000s", face, want[c.name], said)
			}
		}
	}
}
