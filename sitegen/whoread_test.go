package sitegen_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
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
	m := regexp.MustCompile(`(?s)<td class="w[^"]*">(.*?)</td>`).FindStringSubmatch(content)
	if m == nil {
		t.Fatal("no row has who is on it")
	}
	before, _, _ := strings.Cut(m[1], "<details")
	return whoNamed(before)
}

// whoNamed returns the first person or unknown user that is named.
func whoNamed(content string) string {
	named := regexp.MustCompile(`(?s)<(?:b|a)[^>]*class="p"[^>]*>(.*?)</(?:b|a)>`).FindStringSubmatch(content)
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
		`(?s)<li id="([^"]*)"[^>]*class="host.*?<span class="us">([^<]*)<`,
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
