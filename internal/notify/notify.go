// Package notify delivers events to webhooks, by mail and to commands. Each event
// reaches each hook that wants it at least once and in order, across restarts. One
// file, the outbox, holds what waits for delivery.
//
// An event is accepted (written to the outbox), sent, and acknowledged (removed from
// the outbox). A process that dies between sending and acknowledging sends again, with
// the same id. A hook that fails is retried later and does not delay the others.
package notify

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/events"
)

// Bounds of what waits and of what is sent.
const (
	// Budget is how long all deliveries of one generation may take together.
	Budget = 5 * time.Second
	// MaxPending is how many events wait for one hook; the oldest make room.
	MaxPending = 500
	// MaxAge is how long an event waits for delivery.
	MaxAge = 72 * time.Hour
	// PerMinute is the default limit of messages to one hook per minute.
	PerMinute = 4

	maxSeen   = 4096     // accepted ids that are remembered
	maxOutbox = 16 << 20 // bytes that are read back
)

// Kind is how a hook is reached.
type Kind string

// The values of Kind.
const (
	Webhook Kind = "webhook" // an HTTP POST of JSON
	Mail    Kind = "mail"    // a message handed to sendmail -t
	Command Kind = "command" // a program with the event on its standard input
)

// Format is what the body of a webhook looks like.
type Format string

// The values of Format.
const (
	Slack      Format = "slack"      // {"text": …}, with Slack's escapes
	Mattermost Format = "mattermost" // {"text": …}, in Markdown
	Teams      Format = "teams"      // an Adaptive Card, as a Teams workflow takes it
	Discord    Format = "discord"    // {"content": …}, in Markdown
	Telegram   Format = "telegram"   // sendMessage of a bot, in plain text
	Matrix     Format = "matrix"     // m.room.message, in plain text
	Ntfy       Format = "ntfy"       // a message to a topic, in plain text
	JSON       Format = "json"       // the event itself, for programs
)

// Formats returns all formats, the default first.
func Formats() []Format {
	return []Format{Slack, Mattermost, Teams, Discord, Telegram, Matrix, Ntfy, JSON}
}

// Kinds returns every kind of event that a filter can name.
func Kinds() []events.Kind {
	return []events.Kind{
		events.HostNew, events.HostUp, events.HostStale, events.HostDown, events.HostGone,
		events.GPULost, events.GPUBack, events.GPUStuck, events.GPUFreed,
		events.GPUContested, events.GPUContestedEnd, events.GPUIdle, events.GPUXID, events.GPUHot, events.GPUHotEnd,
		events.BookingStart, events.BookingEnding, events.BookingEnd, events.BookingUnused,
	}
}

// A Hook is one receiver of events.
type Hook struct {
	// Name identifies the hook in the outbox, messages and problems; it is unique.
	Name string
	Kind Kind
	// URL and Format are for webhooks. The URL is a secret and never printed whole.
	URL    string
	Format Format
	// To and From are mail addresses; To may be [ToPeople] alone. Sendmail is the program; default /usr/sbin/sendmail.
	To       []string
	From     string
	Sendmail string
	// SMTP is a server, host:port, that takes mail instead. Without a user there is no login.
	SMTP, SMTPUser, SMTPPassword string
	// Command is a program and its arguments. No shell is involved.
	Command []string
	// Events and Hosts are patterns of [path.Match]; nil is everything, an empty list
	// nothing. Users selects events that concern one of these people.
	Events, Hosts, Users []string
	// PerMinute is the limit of messages; further events are combined. 0 is [PerMinute].
	PerMinute int
	// Daily is the local time of a summary, "08:30"; "" for none.
	Daily string
	// Report is weekly or monthly: who used how much, on Mondays or on the first of a month, at Daily or 08:00.
	Report string
	// Not is the local time of day in which nothing is sent, "20:00-08:00"; "" for none.
	Not string
}

// Options configure a Notifier.
type Options struct {
	// Outbox is the file of what waits for delivery.
	Outbox string
	Hooks  []Hook
	// Zone is where Daily and the times in messages are; nil is UTC.
	Zone *time.Location
	// Title and SiteURL are the board's, for messages; both may be "".
	Title, SiteURL string
}

// A Notifier delivers events. Two goroutines, or two programs with the same outbox,
// must not call its methods at the same time.
type Notifier struct {
	opt    Options
	client *http.Client
	// contact says how people are reached; nil while that cannot be known.
	contact func(person string) Contact
	// dial and roots are for tests, whose servers have other names; nil is as the system does.
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	roots *x509.CertPool
	mu    sync.Mutex // guards the outbox while hooks are served side by side
}

// New checks what the configuration did not. The error names the hook and never its URL.
func New(o Options) (*Notifier, error) {
	o.Zone = cmp.Or(o.Zone, time.UTC)
	c := &Notifier{opt: o, client: newClient()}
	c.opt.Hooks = slices.Clone(o.Hooks)
	for i := range c.opt.Hooks {
		h := &c.opt.Hooks[i]
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("hook %s: %w", h.Name, err)
		}
		if h.Daily != "" {
			at, err := time.Parse("15:04", h.Daily)
			if err != nil {
				return nil, fmt.Errorf("hook %s: daily: %q is no time of day; write it as 08:30", h.Name, h.Daily)
			}
			h.Daily = at.Format("15:04")
		}
	}
	return c, nil
}

// check sets defaults and refuses invalid settings.
func (h *Hook) check() error {
	h.PerMinute = cmp.Or(h.PerMinute, PerMinute)
	if err := h.checkNot(); err != nil {
		return err
	}
	if h.Report != "" && h.Report != "weekly" && h.Report != "monthly" {
		return fmt.Errorf("report: %q is neither weekly nor monthly; a summary each day is daily: 08:00", h.Report)
	}
	for _, p := range slices.Concat(h.Events, h.Hosts) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is not a pattern", p)
		}
	}
	switch h.Kind {
	case Webhook:
		u, err := url.Parse(h.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return errors.New("url is not an http or https address") // and is not repeated: it may be a secret
		}
		return h.checkURL(u)
	case Mail:
		if len(h.To) == 0 {
			return errors.New("mail goes to nobody: to is empty")
		}
		h.Sendmail = cmp.Or(h.Sendmail, "/usr/sbin/sendmail")
		if h.SMTP != "" {
			if _, _, err := splitSMTP(h.SMTP); err != nil {
				return err
			}
		}
		to := slices.Clone(h.To)
		if h.toPeople() {
			to = nil
			if h.Daily != "" || h.Report != "" {
				return errors.New("daily and report concern nobody: mail goes to the people whom events concern")
			}
		}
		for _, a := range append(to, h.From) {
			if _, err := mail.ParseAddress(a); err != nil {
				return fmt.Errorf("%q is not a mail address", a)
			}
		}
	case Command:
		if len(h.Command) == 0 || h.Command[0] == "" {
			return errors.New("command is empty")
		}
	}
	return nil
}

// wants reports whether an event is for this hook.
func (h *Hook) wants(e events.Event) bool {
	if h.toPeople() && len(e.Users) == 0 {
		return false
	}
	if h.Events != nil && !matches(h.Events, string(e.Kind)) || h.Hosts != nil && !matches(h.Hosts, e.Host) {
		return false
	}
	return h.Users == nil || slices.ContainsFunc(e.Users, func(who string) bool {
		return slices.ContainsFunc(h.Users, func(u string) bool { return strings.EqualFold(u, who) })
	})
}

func matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, s)
		return err == nil && ok
	})
}

// Accept writes events to the outbox, each id once, and queues the daily, weekly and monthly texts when they are due.
// text makes each of these at most once, and only then. After an error no event counts as accepted: pass the same
// events again.
func (c *Notifier) Accept(fresh []events.Event, text func(of string) string, now time.Time) error {
	box, err := c.load()
	if err != nil && !errors.Is(err, errForgotten) {
		return err
	}
	for name := range box.Hooks {
		if !slices.ContainsFunc(c.opt.Hooks, func(h Hook) bool { return h.Name == name }) {
			delete(box.Hooks, name)
		}
	}
	texts := map[string]string{}
	due := func(q *queue, of, day string) {
		if texts[of] == "" && text != nil {
			texts[of] = text(of)
		}
		q.add(item{ID: of + "/" + day, Accepted: now, Text: texts[of]})
	}
	for i := range c.opt.Hooks {
		h := &c.opt.Hooks[i]
		q := box.Hooks[h.Name]
		if q == nil {
			q = &queue{}
			if c.dailyDue(h, now) {
				q.Day = c.day(now) // no summary for the day on which the hook is added
			}
			box.Hooks[h.Name] = q
		}
		for _, e := range fresh {
			if slices.Contains(box.Seen, e.ID) || !h.wants(e) {
				continue
			}
			to := []string{""}
			if h.toPeople() {
				to = e.Users
			}
			for _, who := range to {
				q.add(item{ID: e.ID, Accepted: now, Event: &e, To: who})
			}
		}
		if h.Daily != "" && c.dailyDue(h, now) && c.day(now) > q.Day {
			q.Day = c.day(now)
			due(q, "daily", q.Day)
		}
		if day := c.reportDay(h, now); h.Report != "" && day > q.Report {
			if q.Report != "" { // there is none for the time before the hook has one
				due(q, h.Report, day)
			}
			q.Report = day
		}
		q.expire(now)
	}
	for _, e := range fresh {
		if !slices.Contains(box.Seen, e.ID) {
			box.Seen = append(box.Seen, e.ID)
		}
	}
	box.Seen = box.Seen[max(0, len(box.Seen)-maxSeen):]
	return c.save(box) // which writes nothing if nothing has changed
}

func (c *Notifier) day(now time.Time) string { return now.In(c.opt.Zone).Format("2006-01-02") }

// dailyDue reports whether the local time of day is the hook's or later. A day on which a
// clock change skips that time has a summary, and one on which it occurs twice only one.
func (c *Notifier) dailyDue(h *Hook, now time.Time) bool {
	return h.Daily != "" && now.In(c.opt.Zone).Format("15:04") >= h.Daily
}

// reportDay is the local day on which the last report of a hook was due.
func (c *Notifier) reportDay(h *Hook, now time.Time) string {
	day := now.In(c.opt.Zone)
	if day.Format("15:04") < cmp.Or(h.Daily, "08:00") {
		day = day.AddDate(0, 0, -1)
	}
	if h.Report == "monthly" {
		return day.Format("2006-01") + "-01"
	}
	return day.AddDate(0, 0, -(int(day.Weekday())+6)%7).Format(time.DateOnly)
}

// A State is that of one hook, or without a name that of the outbox.
type State struct {
	Hook, Where string // Where is its address without secrets
	Waiting     int    // events
	Err         error
	Tries       int       // that failed
	Next        time.Time // when it is tried again
	// Refused is true when a retry alone does not help.
	Refused bool
}

// Failures returns the hooks whose last delivery failed, from the outbox.
func (c *Notifier) Failures() []State {
	box, err := c.load()
	if err != nil {
		return []State{{Err: err}}
	}
	return c.failures(box)
}

func (c *Notifier) failures(box *outbox) []State {
	return slices.DeleteFunc(c.states(box), func(s State) bool { return s.Err == nil })
}

// Test sends one message to each hook, without the outbox, and returns the results.
func (c *Notifier) Test(ctx context.Context, now time.Time) []State {
	list := make([]State, len(c.opt.Hooks))
	var wg sync.WaitGroup
	for i := range c.opt.Hooks {
		h := &c.opt.Hooks[i]
		wg.Go(func() { list[i] = State{Hook: h.Name, Where: h.where(), Err: c.send(ctx, h, c.testMessage(h, now))} })
	}
	wg.Wait()
	return list
}

// States returns the state of each hook, in their order, from the outbox.
func (c *Notifier) States() ([]State, error) {
	box, err := c.load()
	if err != nil {
		return nil, err
	}
	return c.states(box), nil
}

func (c *Notifier) states(box *outbox) []State {
	list := make([]State, len(c.opt.Hooks))
	for i, h := range c.opt.Hooks {
		list[i] = State{Hook: h.Name, Where: h.where()}
		if q := box.Hooks[h.Name]; q != nil {
			s := &list[i]
			s.Waiting, s.Tries, s.Next, s.Refused = len(q.Pending), q.Tries, q.Next, q.Refused
			if q.Tries > 0 {
				s.Err = errors.New(q.Error)
			}
		}
	}
	return list
}

// where returns a hook's address without its secrets.
func (h *Hook) where() string {
	switch h.Kind {
	case Webhook:
		return withoutSecret(h.URL)
	case Mail:
		return strings.Join(h.To, ", ")
	default:
		return h.Command[0]
	}
}
