package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/config"
)

// What the PHP page of the older GPU Monitor says in its source.
var (
	phpHosts = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)\$HOSTS\s*=\s*(?:array\s*\(|\[)(.*?)[)\]]\s*;`)
	})
	phpPair = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`["']([^"'\n]+)["']\s*=>\s*["']([^"'\n]*)["']`)
	})
	phpZone = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[^/#\n]*?(?:date_default_timezone_set\s*\(\s*|ini_set\s*\(\s*["']date\.timezone["']\s*,\s*)["']([^"'\n]+)["']`)
	})
)

func isPHP(text []byte) bool { return bytes.Contains(text, []byte("<?php")) }

// php reads the hosts and their titles out of the page, and its time zone.
func (o *older) php(text []byte) {
	o.titles = map[string]string{}
	if m := phpHosts().FindSubmatch(text); m != nil {
		for _, pair := range phpPair().FindAllSubmatch(m[1], -1) {
			before := len(o.hosts)
			o.add(string(pair[1]), "", 0)
			if title := strings.TrimSpace(string(pair[2])); len(o.hosts) > before && title != o.hosts[before].name {
				o.titles[o.hosts[before].name] = title
			}
		}
	}
	o.zone, o.zoneBy = "UTC", "it sets none, which is PHP's UTC unless date.timezone in php.ini says otherwise"
	if m := phpZone().FindSubmatch(text); m != nil {
		if _, err := time.LoadLocation(string(m[1])); err == nil {
			o.zone, o.zoneBy = string(m[1]), "its source says so"
		}
	}
}

// besidePage looks for the page's source beside a list of hosts.
func (o *older) besidePage(path string) {
	if o.zone != "" {
		return
	}
	source := filepath.Join(filepath.Dir(path), "index.php")
	text, err := os.ReadFile(source)
	if err != nil || len(text) > config.MaxBytes || !isPHP(text) {
		return
	}
	page := &older{}
	page.php(text)
	o.zone, o.zoneBy = page.zone, page.zoneBy
}
