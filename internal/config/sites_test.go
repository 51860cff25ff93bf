package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestSites: names are like those of hosts, each is there once, and places are addresses or directories.
func TestSites(t *testing.T) {
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("s%d=/srv", i)
	}
	for _, c := range []struct{ value, want, fault string }{
		{"a=https://a.example.org/gpus/?x=1, B = /srv/b", "[{a https://a.example.org/gpus/?x=1} {b /srv/b}]", ""},
		{"", "[]", ""},
		{"a", "", "a needs the address"},
		{"a=s3://bucket/prefix", "[{a s3://bucket/prefix}]", ""},
		{"a=ftp://a.example.org/", "", "a needs the address"},
		{"../a=/srv", "", "is not of the form NAME=URL"},
		{"a=/srv,A=/srv/b", "", "two sites are called a"},
		{strings.Join(many, ","), "", "100 are the most"},
	} {
		key := Among(Keys(), "sites")
		if err := key.check(c.value); c.fault == "" && err != nil || c.fault != "" &&
			(err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%.40q: %v, want %q", c.value, err, c.fault)
		}
		cfg := &Config{values: map[string]string{"sites": c.value}}
		if got := fmt.Sprint(cfg.Sites()); c.fault == "" && got != c.want {
			t.Errorf("%q: %s", c.value, got)
		}
	}
}
