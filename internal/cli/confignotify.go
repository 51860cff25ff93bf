package cli

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"gpuboard/internal/notify"
)

// A hookEntry is one hook as the configuration lists it.
type hookEntry struct {
	notify.Hook
	urlFile string // that holds the webhook's URL; "" where the configuration does
	origin  string // gpuboard.yml:12
}

// hookFields are what an entry of notify may say. The first four say where it leads.
func hookFields() []string {
	return []string{"webhook", "webhook_file", "mail", "command", "name", "format", "from", "sendmail", "events", "hosts", "users", "per_minute", "daily"}
}

// notifyList reads notify: a list of hooks, each with one of webhook,
// webhook_file, mail and command.
func (r *configReader) notifyList(node ast.Node) error {
	if _, empty := node.(*ast.NullNode); empty {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return r.errorAt(node.GetToken(), "notify takes a list of hooks, each beginning with a dash")
	}
	names := map[string]bool{}
	for _, item := range list.Values {
		values, ok := mapping(item)
		if !ok {
			return r.errorAt(item.GetToken(), "a hook takes lines of the form key: value")
		}
		h := hookEntry{origin: fmt.Sprintf("%s:%d", r.path, values[0].Key.GetToken().Position.Line)}
		seen := map[string]bool{}
		at := values[0].Key.GetToken()
		for _, v := range values {
			field := strings.ReplaceAll(v.Key.GetToken().Value, "-", "_")
			if seen[field] {
				return r.errorAt(v.Key.GetToken(), "%s is set twice", field)
			}
			seen[field] = true
			if err := r.hookField(&h, field, v); err != nil {
				return err
			}
		}
		if err := r.completeHook(&h, seen, at); err != nil {
			return err
		}
		if names[h.Name] {
			return r.errorAt(at, "a hook called %q is there already; give this one another name", h.Name)
		}
		names[h.Name] = true
		r.hooks = append(r.hooks, h)
	}
	return nil
}

// completeHook checks what only the whole entry tells.
func (r *configReader) completeHook(h *hookEntry, seen map[string]bool, at *token.Token) error {
	leads := 0
	for _, field := range hookFields()[:4] {
		if seen[field] {
			leads++
		}
	}
	if leads != 1 {
		return r.errorAt(at, "a hook has one of webhook, webhook_file, mail and command, and this one has %d", leads)
	}
	for field, kind := range map[string]notify.Kind{"format": notify.Webhook, "from": notify.Mail, "sendmail": notify.Mail} {
		if seen[field] && h.Kind != kind {
			return r.errorAt(at, "%s is for hooks of kind %s, and this one is a %s", field, kind, h.Kind)
		}
	}
	if h.Name == "" {
		n := 1
		for _, other := range r.hooks {
			if other.Kind == h.Kind {
				n++
			}
		}
		h.Name = fmt.Sprintf("%s-%d", h.Kind, n)
	}
	try := h.Hook
	if h.urlFile != "" {
		try.URL = "https://from.a.file.invalid/"
	}
	if try.Kind == notify.Mail && try.From == "" {
		try.From = "gpuboard@localhost" // the real one is found when mail is sent
	}
	if _, err := notify.New(notify.Options{Hooks: []notify.Hook{try}}); err != nil {
		return r.errorAt(at, "%v", err)
	}
	return nil
}

var hookName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

func (r *configReader) hookField(h *hookEntry, field string, v *ast.MappingValueNode) error {
	at := v.Value.GetToken()
	one := func() (string, error) { return r.scalar(key{name: field}, v.Value) }
	var err error
	switch field {
	case "name":
		if h.Name, err = one(); err == nil && !hookName().MatchString(h.Name) {
			return r.errorAt(at, "name: letters, digits, and - _ . within")
		}
	case "webhook":
		h.Kind = notify.Webhook
		h.URL, err = one()
	case "webhook_file":
		h.Kind = notify.Webhook
		h.urlFile, err = one()
	case "mail":
		h.Kind = notify.Mail
		h.To, err = r.strings(field, v.Value)
	case "command":
		h.Kind = notify.Command
		h.Command, err = r.strings(field, v.Value)
	case "format":
		var s string
		s, err = one()
		known := []string{}
		for _, f := range notify.Formats() {
			known = append(known, string(f))
		}
		if err == nil && !slices.Contains(known, s) {
			return r.errorAt(at, "there is no format %q%s; there are %s", s, didYouMean(s, known), strings.Join(known, ", "))
		}
		h.Format = notify.Format(s)
	case "from":
		h.From, err = one()
	case "sendmail":
		h.Sendmail, err = one()
	case "events":
		h.Events, err = r.eventList(v.Value)
	case "hosts":
		if h.Hosts, err = r.strings(field, v.Value); err == nil {
			for _, p := range h.Hosts {
				if _, bad := path.Match(p, ""); bad != nil {
					return r.errorAt(at, "hosts: %q is not a pattern; * stands for anything", p)
				}
			}
		}
	case "users":
		h.Users, err = r.strings(field, v.Value)
	case "per_minute":
		var s string
		if s, err = one(); err == nil {
			if h.PerMinute, err = strconv.Atoi(s); err != nil || h.PerMinute < 1 || h.PerMinute > 60 {
				return r.errorAt(at, "per_minute: %q is not a number of messages from 1 to 60", s)
			}
		}
	case "daily":
		if h.Daily, err = one(); err == nil {
			if _, bad := time.Parse("15:04", h.Daily); bad != nil {
				return r.errorAt(at, "daily: %q is no time of day; write it as 08:30", h.Daily)
			}
		}
	default:
		return r.errorAt(v.Key.GetToken(), "a hook has no %q%s", field, didYouMean(field, hookFields()))
	}
	return err
}

// eventList reads which events a hook gets: patterns of kinds. An empty list is none.
func (r *configReader) eventList(node ast.Node) ([]string, error) {
	list, err := r.strings("events", node)
	if err != nil {
		return nil, err
	}
	known := []string{}
	for _, k := range notify.Kinds() {
		known = append(known, string(k))
	}
	for _, p := range list {
		if !slices.ContainsFunc(known, func(k string) bool { ok, err := path.Match(p, k); return ok && err == nil }) {
			return nil, r.errorAt(node.GetToken(), "events: no event is called %q%s; there are %s", p, didYouMean(p, known), strings.Join(known, ", "))
		}
	}
	return list, nil
}

// strings reads a list of plain values, or one alone. It is never nil.
func (r *configReader) strings(name string, node ast.Node) ([]string, error) {
	list := []string{}
	items := []ast.Node{node}
	switch n := node.(type) {
	case *ast.NullNode:
		return list, nil
	case *ast.SequenceNode:
		items = n.Values
	}
	for _, item := range items {
		s, err := r.scalar(key{name: name}, item)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

var urlPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(https?://[^/\s"']*)/[^\s"']+`) })

// withoutURLPaths hides what is secret in a line that is quoted: whoever knows
// a webhook's address may write there.
func withoutURLPaths(line string) string { return urlPath().ReplaceAllString(line, "$1/…") }
