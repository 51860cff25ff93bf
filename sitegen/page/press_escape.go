package page

import "strings"

// The escapers of html/template that the pages' contexts need, by the names
// that it leaves in the trees.
const (
	htmlEscaper   = "_html_template_htmlescaper"
	attrEscaper   = "_html_template_attrescaper"
	rcdataEscaper = "_html_template_rcdataescaper"
	urlFilter     = "_html_template_urlfilter"
	urlNormalizer = "_html_template_urlnormalizer"
	urlEscaper    = "_html_template_urlescaper"
)

// escaperOf is what a row of them makes of a plain string; ok is false for all
// that the pages do not need, and for a row that does not end in one for HTML.
func escaperOf(names []string) (escape func(out []byte, s string) []byte, ok bool) {
	switch strings.Join(names, " ") {
	case htmlEscaper, attrEscaper, rcdataEscaper:
		return appendHTML, true
	case urlFilter + " " + urlNormalizer + " " + attrEscaper:
		return func(out []byte, s string) []byte {
			if !safeURL(s) {
				s = "#ZgotmplZ"
			}
			return appendHTML(out, percented(s, true))
		}, true
	case urlNormalizer + " " + attrEscaper:
		return func(out []byte, s string) []byte { return appendHTML(out, percented(s, true)) }, true
	case urlEscaper + " " + attrEscaper:
		return func(out []byte, s string) []byte { return appendHTML(out, percented(s, false)) }, true
	}
	return nil, false
}

// appendHTML appends s with the characters named that mean something in text or
// in a quoted attribute.
func appendHTML(out []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		var name string
		switch s[i] {
		case 0:
			name = "\uFFFD"
		case '"':
			name = "&#34;"
		case '&':
			name = "&amp;"
		case '\'':
			name = "&#39;"
		case '+':
			name = "&#43;"
		case '<':
			name = "&lt;"
		case '>':
			name = "&gt;"
		default:
			continue
		}
		out = append(append(out, s[from:i]...), name...)
		from = i + 1
	}
	return append(out, s[from:]...)
}

// safeURL reports whether a link leads within the site, to the web, or to mail.
func safeURL(s string) bool {
	scheme, _, found := strings.Cut(s, ":")
	if !found || strings.Contains(scheme, "/") {
		return true
	}
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "mailto")
}

// percented writes the bytes that a URL cannot hold as %xx; in a whole URL, what
// divides its parts stays, and what is written so already.
func percented(s string, whole bool) string {
	const digits = "0123456789abcdef"
	stays := func(i int) bool {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return true
		case c == '%':
			return whole && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
		case strings.IndexByte("-._~", c) >= 0:
			return true
		}
		return whole && strings.IndexByte("!#$&*+,/:;=?@[]", c) >= 0
	}
	var out []byte
	from := 0
	for i := range len(s) {
		if stays(i) {
			continue
		}
		out = append(append(out, s[from:i]...), '%', digits[s[i]>>4], digits[s[i]&15])
		from = i + 1
	}
	if from == 0 {
		return s
	}
	return string(append(out, s[from:]...))
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
