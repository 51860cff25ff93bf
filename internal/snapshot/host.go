package snapshot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrHost is wrapped by every error of [ParseHost].
var ErrHost = errors.New("not a host name")

// siteSuffixes are the suffixes of files in the site next to directories that are named
// after hosts.
var siteSuffixes = []string{".gz", ".html", ".ics", ".json", ".txt"}

// ParseHost returns the canonical (lower-case) form of a host name, or an error. Every
// name that becomes a file name, a URL or an id is checked here first: names come from
// Consul, where anybody may register `../../etc/cron.d/x`, and from nodes.
//
// The rule is RFC 1123's: labels of letters, digits and inner hyphens, at most
// 63 long, 253 in all.
func ParseHost(s string) (string, error) {
	name := strings.ToLower(s)
	switch {
	case name == "":
		return "", fmt.Errorf("%w: it is empty", ErrHost)
	case len(name) > 253:
		return "", fmt.Errorf("%w: it is %d characters long, and 253 is the most", ErrHost, len(name))
	case len(name) != len(s) || !labels().MatchString(name): // the Kelvin sign's lower case is a plain k
		return "", fmt.Errorf("%w: %s: letters, digits, inner hyphens and dots only", ErrHost,
			strconv.QuoteToASCII(Clip(s, 80)))
	}
	for _, suffix := range siteSuffixes {
		if strings.HasSuffix(name, suffix) {
			return "", fmt.Errorf("%w: %q ends in %q, which names a kind of file in the site", ErrHost, name, suffix)
		}
	}
	return name, nil
}

const label = `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?`

// labels matches lower-case labels of at most 63 characters.
var labels = Pattern(`^` + label + `(?:\.` + label + `)*$`)

// Clip cuts a text of elsewhere for a message; see [Text] for what is shown.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
