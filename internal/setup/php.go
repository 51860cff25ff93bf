package setup

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gpuboard/internal/config"
)

func isPHP(text []byte) bool { return bytes.Contains(text, []byte("<?php")) }

// php reads hosts, titles and the time zone out of the older GPU Monitor's page.
func (l *hostList) php(text []byte) {
	list := regexp.MustCompile(`(?s)\$HOSTS\s*=\s*(?:array\s*\(|\[)(.*?)[)\]]\s*;`)
	pair := regexp.MustCompile(`["']([^"'\n]+)["']\s*=>\s*["']([^"'\n]*)["']`)
	zone := regexp.MustCompile(`(?m)^[^/#\n]*?(?:date_default_timezone_set\s*\(\s*|ini_set\s*\(\s*["']date\.timezone["']\s*,\s*)["']([^"'\n]+)["']`)
	l.titles = map[string]string{}
	if m := list.FindSubmatch(text); m != nil {
		for _, p := range pair.FindAllSubmatch(m[1], -1) {
			before := len(l.hosts)
			l.add(string(p[1]), "", 0)
			if title := strings.TrimSpace(string(p[2])); len(l.hosts) > before && title != l.hosts[before].name {
				l.titles[l.hosts[before].name] = title
			}
		}
	}
	l.zone, l.zoneFrom = "UTC", "it sets none, which is PHP's UTC unless date.timezone in php.ini says otherwise"
	if m := zone.FindSubmatch(text); m != nil {
		if _, err := time.LoadLocation(string(m[1])); err == nil {
			l.zone, l.zoneFrom = string(m[1]), "its source says so"
		}
	}
}

// besidePage looks for the time zone in the page's source beside a list of hosts.
func (l *hostList) besidePage(path string) {
	if l.zone != "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "index.php"))
	if err != nil || len(text) > config.MaxBytes || !isPHP(text) {
		return
	}
	page := &hostList{}
	page.php(text)
	l.zone, l.zoneFrom = page.zone, page.zoneFrom
}
