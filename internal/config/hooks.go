package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/booking"
	"gpuboard/internal/events"
	"gpuboard/internal/failure"
	"gpuboard/internal/notify"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// A Hook is one entry of notify: in the configuration.
type Hook struct {
	notify.Hook
	URLFile string // the file that holds the webhook's URL; "" where the configuration does
	Origin  string // gpuboard.yml:12
	// PasswordFile holds the password of SMTPUser.
	PasswordFile string
}

// hookList reads notify: a list of hooks.
func (f *file) hookList(line *ast.MappingValueNode) error {
	if _, empty := line.Value.(*ast.NullNode); empty {
		return nil
	}
	list, ok := line.Value.(*ast.SequenceNode)
	if !ok {
		return f.errorAt(line.Value.GetToken(), "notify takes a list of hooks, each beginning with a dash")
	}
	for _, item := range list.Values {
		if err := f.hook(item); err != nil {
			return err
		}
	}
	return nil
}

// hookFields are the lines that a hook may have.
func (f *file) hookFields(h *Hook) fields {
	return fields{
		"webhook": f.intoText(&h.URL), "webhook_file": f.intoText(&h.URLFile), "mail": f.intoTexts(&h.To),
		"command": f.intoTexts(&h.Command), "name": f.intoText(&h.Name), "format": f.intoText((*string)(&h.Format)),
		"from": f.intoText(&h.From), "sendmail": f.intoText(&h.Sendmail), "events": f.intoTexts(&h.Events),
		"hosts": f.intoTexts(&h.Hosts), "users": f.intoTexts(&h.Users),
		"per_minute": f.intoNumber(&h.PerMinute, 1, maxPerMinute, "messages"), "daily": f.intoText(&h.Daily),
		"not": f.intoText(&h.Not), "report": f.intoText(&h.Report),
		"smtp": f.intoText(&h.SMTP), "smtp_user": f.intoText(&h.SMTPUser),
		"smtp_password_file": f.intoText(&h.PasswordFile),
	}
}

// maxPerMinute bounds how many messages a hook may get, and maxSecret a file with an address or a password.
const (
	maxPerMinute = 60
	maxSecret    = 4096
)

// hook reads one hook. It checks what it can point at in the file; notify.New checks the rest.
func (f *file) hook(item ast.Node) error {
	var h Hook
	seen, err := f.mapping(item, "a hook takes", "a hook has no", "", f.hookFields(&h))
	if err != nil {
		return err
	}
	at := firstKey(item)
	h.Origin = fmt.Sprintf("%s:%d", f.Path, at.Position.Line)
	targets := 0
	for field, kind := range map[string]notify.Kind{
		"webhook": notify.Webhook, "webhook_file": notify.Webhook, "mail": notify.Mail, "command": notify.Command,
	} {
		if seen[field] != nil {
			h.Kind = kind
			targets++
		}
	}
	if targets != 1 {
		return f.errorAt(at, "a hook has one of webhook, webhook_file, mail and command, and this one has %d", targets)
	}
	for field, kind := range map[string]notify.Kind{
		"format": notify.Webhook, "from": notify.Mail, "sendmail": notify.Mail,
		"smtp": notify.Mail, "smtp_user": notify.Mail, "smtp_password_file": notify.Mail,
	} {
		if seen[field] != nil && h.Kind != kind {
			return f.errorAt(at, "%s is for hooks of kind %s, and this one is a %s", field, kind, h.Kind)
		}
	}
	if h.SMTP == "" && (h.SMTPUser != "" || h.PasswordFile != "") || (h.SMTPUser == "") != (h.PasswordFile == "") {
		return f.errorAt(at, "smtp_user and smtp_password_file go together, beside smtp")
	}
	if h.SMTP != "" && h.Sendmail != "" {
		return f.errorAt(at, "mail goes by smtp or by sendmail, and this hook has both")
	}
	if token := seen["format"]; token != nil && !slices.Contains(notify.Formats(), h.Format) {
		known := texts(notify.Formats())
		return f.errorAt(token, "there is no format %q%s; there are %s",
			h.Format, spelling.DidYouMean(string(h.Format), known), strings.Join(known, ", "))
	}
	for i, kind := range h.Events {
		if kind == "booking-noshow" { // what earlier builds called it
			h.Events[i] = string(events.BookingUnused)
		}
	}
	if err := f.checkEvents(h.Events, seen["events"]); err != nil {
		return err
	}
	if err := f.checkName(&h, at); err != nil {
		return err
	}
	try := h.Hook
	if h.URLFile != "" {
		try.URL, try.Format = "https://from.a.file.invalid/", notify.JSON // whose address needs nothing more
	}
	if try.Kind == notify.Mail && try.From == "" {
		try.From = "gpuboard@localhost" // the real one is found when mail is sent
	}
	if _, err := notify.New(notify.Options{Hooks: []notify.Hook{try}}); err != nil {
		return f.errorAt(at, "%v", err)
	}
	f.Hooks = append(f.Hooks, h)
	return nil
}

// checkName gives a hook without a name one, and refuses a name that is taken.
func (f *file) checkName(h *Hook, at *token.Token) error {
	if h.Name == "" {
		n := 1
		for _, other := range f.Hooks {
			if other.Kind == h.Kind {
				n++
			}
		}
		h.Name = fmt.Sprintf("%s-%d", h.Kind, n)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(h.Name) {
		return f.errorAt(at, "name: letters, digits, and - _ . within")
	}
	if slices.ContainsFunc(f.Hooks, func(other Hook) bool { return other.Name == h.Name }) {
		return f.errorAt(at, "a hook called %q is there already; give this one another name", h.Name)
	}
	return nil
}

// checkEvents refuses a pattern that no kind of event matches.
func (f *file) checkEvents(patterns []string, at *token.Token) error {
	known := texts(notify.Kinds())
	for _, p := range patterns {
		if !slices.ContainsFunc(known, func(k string) bool { ok, err := path.Match(p, k); return ok && err == nil }) {
			return f.errorAt(at, "events: no event is called %q%s; there are %s",
				p, spelling.DidYouMean(p, known), strings.Join(known, ", "))
		}
	}
	return nil
}

// firstKey returns where an entry of a list begins.
func firstKey(item ast.Node) *token.Token {
	if m, ok := item.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return item.GetToken()
}

func texts[T ~string](list []T) (all []string) {
	for _, s := range list {
		all = append(all, string(s))
	}
	return all
}

// Contacts reads how people are reached: people.csv in the data directory, and people.domain for those who have no
// address there. The first result is nil if the file cannot be read.
func (c *Config) Contacts() (of func(person string) notify.Contact, problems []snapshot.Problem) {
	unreadable := func(name string, err error) []snapshot.Problem {
		return []snapshot.Problem{{Code: "people:csv", File: name, Message: snapshot.Text(err.Error(), maxMessage)}}
	}
	names, err := atomicfile.Read(c.AliasesPath(), booking.MaxAliasBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable("aliases.csv", err)
	}
	aliases, _ := booking.ParseAliases(names) // the board says its problems
	data, err := atomicfile.Read(filepath.Join(c.String("data"), "people.csv"), booking.MaxAliasBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable("people.csv", err)
	}
	contacts, problems := booking.ParseContacts(data, aliases)
	domain := strings.TrimPrefix(c.String("people.domain"), "@")
	return func(person string) notify.Contact {
		found := contacts.Of(person)
		address := person + "@" + domain
		if is, err := mail.ParseAddress(address); err == nil && found.Mail == "" && is.Address == address {
			found.Mail = address
		}
		return notify.Contact(found)
	}, problems
}

// Notifier returns what sends events to the hooks; nil if no hooks are configured.
func (c *Config) Notifier() (*notify.Notifier, error) {
	if len(c.Hooks) == 0 {
		return nil, nil
	}
	o := notify.Options{
		Outbox: filepath.Join(c.String("state"), "outbox.json"), Zone: c.Zone(),
		Title: c.String("title"), SiteURL: c.String("base_url"),
	}
	for _, h := range c.Hooks {
		for _, secret := range []struct {
			what, file string
			to         *string
		}{{"webhook", h.URLFile, &h.URL}, {"password", h.PasswordFile, &h.SMTPPassword}} {
			if secret.file == "" {
				continue
			}
			line, err := atomicfile.Read(secret.file, maxSecret)
			if err != nil {
				err = fmt.Errorf("%s: reading the %s of hook %s: %w", h.Origin, secret.what, h.Name, err)
				return nil, failure.Because("notify:config", failure.New(failure.ExitUsage, err, ""))
			}
			*secret.to = strings.TrimSpace(string(line))
		}
		if h.Kind == notify.Mail && h.From == "" {
			h.From = sender()
		}
		o.Hooks = append(o.Hooks, h.Hook)
	}
	n, err := notify.New(o)
	if err != nil {
		return nil, failure.Because("notify:config", failure.New(failure.ExitUsage, fmt.Errorf("notify: %w", err), ""))
	}
	return n, nil
}

// sender is the default address of the sender of mail.
func sender() string {
	host, err := os.Hostname()
	address := "gpuboard@" + host
	if _, bad := mail.ParseAddress(address); err != nil || bad != nil {
		return "gpuboard@localhost"
	}
	return address
}
