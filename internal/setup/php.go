package setup

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
)

// A page is what the source of the older GPU Monitor's page says beside the hosts.
type page struct {
	zone       string // in which it reads the times of bookings, "" without a page
	zoneFrom   string // how that is known
	titles     map[string]string
	shortNames map[string]string
	data       string // its directory of data, "" if it is not on this machine
}

func isPHP(text []byte) bool { return bytes.Contains(text, []byte("<?php")) }

// php reads hosts, titles, short names and the time zone out of the older GPU Monitor's page.
func (l *hostList) php(text []byte) error {
	text = regexp.MustCompile(`(?m)^\s*(//|#).*$`).ReplaceAll(text, nil)
	pairs := func(variable string) [][][]byte {
		list := regexp.MustCompile(`(?s)\$` + variable + `\s*=\s*(?:array\s*\(|\[)(.*?)[)\]]\s*;`).FindSubmatch(text)
		if list == nil {
			return nil
		}
		return regexp.MustCompile(`["']([^"'\n]+)["']\s*=>\s*["']([^"'\n]*)["']`).FindAllSubmatch(list[1], -1)
	}
	zone := regexp.MustCompile(
		`(?m)^[^/#\n]*?(?:date_default_timezone_set\s*\(\s*|ini_set\s*\(\s*["']date\.timezone["']\s*,\s*)["']([^"'\n]+)["']`)
	l.titles, l.shortNames = map[string]string{}, map[string]string{}
	for _, p := range pairs("HOSTS") {
		before := len(l.hosts)
		l.add(string(p[1]), "", 0)
		if title := strings.TrimSpace(string(p[2])); len(l.hosts) > before && title != l.hosts[before].Name {
			l.titles[l.hosts[before].Name] = title
		}
	}
	for _, p := range pairs("SHORT_GPU_NAMES") {
		l.shortNames[snapshot.Text(string(p[1]), snapshot.MaxNameBytes)] = snapshot.Text(string(p[2]),
			snapshot.MaxNameBytes)
	}
	l.zone, l.zoneFrom = "UTC", "it sets none, which is PHP's UTC unless date.timezone in php.ini says otherwise"
	if m := zone.FindSubmatch(text); m != nil {
		if _, err := time.LoadLocation(string(m[1])); err == nil {
			l.zone, l.zoneFrom = string(m[1]), "its source says so"
		}
	}
	return nil
}

// readPage reads the page beside a list of hosts, and finds its data.
func (l *hostList) readPage(path string) {
	dir := filepath.Dir(path)
	if l.zone == "" {
		text, err := readBounded(filepath.Join(dir, "index.php"))
		if err != nil || !isPHP(text) {
			return
		}
		beside := &hostList{}
		_ = beside.php(text) // which has no error
		l.page = beside.page
	}
	if data, err := filepath.Abs(filepath.Join(dir, "data")); err == nil && legacy.Found(data) {
		l.data = data
	}
}
