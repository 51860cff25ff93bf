package notify

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"gpuboard/internal/snapshot"
)

// A request is what is sent to a webhook.
type request struct {
	method, url, token string
	doc                any
}

// Limits of the receivers, for whole characters; ntfy counts bytes, and makes a file of what is longer.
const (
	maxNtfy     = 4000
	maxDiscord  = 2000
	maxTelegram = 4096
)

// pattern is compiled when it is first used: most processes send no messages.
func pattern(expr string) func() *regexp.Regexp {
	return snapshot.Pattern(expr)
}

var (
	slackMember  = pattern(`^[UW][A-Z0-9]{6,}$`)
	discordUser  = pattern(`^[0-9]{5,25}$`)
	telegramUser = pattern(`^[A-Za-z][A-Za-z0-9_]{3,31}$`)
	matrixUser   = pattern(`^[^:@]+:[A-Za-z0-9.:-]+$`)
)

// request returns what the format of a hook makes of a message and of its address.
func (h *Hook) request(m message) (request, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return request{}, errors.New("the url cannot be used")
	}
	r := request{method: http.MethodPost}
	if token, some := u.User.Password(); some && u.User.Username() == "" {
		r.token, u.User = token, nil // no user has no name, so this is no password
	}
	switch h.Format {
	case Ntfy:
		topic := path.Base(u.Path)
		u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), topic)
		r.doc = ntfy(topic, m)
	case Discord:
		r.doc = discord(m)
	case Telegram:
		chat := u.Query().Get("chat_id")
		u.RawQuery = ""
		r.doc = map[string]any{"chat_id": chat, "text": telegram(m),
			"link_preview_options": map[string]bool{"is_disabled": true}}
	case Matrix:
		r.method = http.MethodPut
		id := sha256.Sum256([]byte(h.Name + "\n" + m.ID)) // a message that is sent again is one message there
		u = u.JoinPath("..").JoinPath("_matrix/client/v3/rooms", url.PathEscape(path.Base(u.Path)),
			"send/m.room.message",
			base64.RawURLEncoding.EncodeToString(id[:18]))
		r.doc = matrix(m)
	default:
		r.doc = h.doc(m)
	}
	r.url = u.String()
	return r, nil
}

// checkURL refuses an address that lacks what the format needs. It does not repeat it: it may be a secret.
func (h *Hook) checkURL(u *url.URL) error {
	_, token := u.User.Password()
	place := strings.Trim(u.Path, "/")
	switch {
	case h.Format == Ntfy && place == "":
		return errors.New("url has no topic: ntfy is reached at https://ntfy.sh/TOPIC")
	case h.Format == Telegram && u.Query().Get("chat_id") == "":
		return errors.New(
			"url has no chat: telegram is reached at https://api.telegram.org/botTOKEN/sendMessage?chat_id=NUMBER")
	case h.Format == Matrix && (!token || !strings.HasPrefix(path.Base(place), "!")):
		return errors.New(
			"url has no room or token: matrix is reached at https://:TOKEN@matrix.example.org/!ROOM:example.org")
	}
	return nil
}

// ntfy returns a message as ntfy's root takes it. It is plain text, and nobody can be mentioned.
func ntfy(topic string, m message) any {
	doc := map[string]string{"topic": topic, "message": cutBytes(m.Text, maxNtfy)}
	if m.Title != "" {
		doc["title"] = m.Title
	}
	if m.URL != "" {
		doc["click"] = m.URL
	}
	return doc
}

// discord returns a message that mentions nobody but the people it is for, whatever its text says.
func discord(m message) any {
	users := []string{}
	text := mentions(m.mention, func(name string) string {
		if !discordUser().MatchString(name) {
			return "@\u2060" + escapeMarkdown(name)
		}
		users = append(users, name)
		return "<@" + name + ">"
	})
	text += m.titled("**", escapeMarkdown, escapeMarkdown(m.Text))
	return map[string]any{
		"content":          cut(withLink(text, m.URL), maxDiscord),
		"allowed_mentions": map[string]any{"parse": []string{}, "users": users},
	}
}

// telegram returns a message as plain text, in which an invisible word joiner disables mentions and commands.
func telegram(m message) string {
	text := mentions(m.mention, func(name string) string {
		if telegramUser().MatchString(name) {
			return "@" + name
		}
		return name
	})
	plain := strings.NewReplacer("@", "@\u2060", "#", "#\u2060", " /", " /\u2060")
	text += m.titled("", plain.Replace, plain.Replace(m.Text))
	return cut(withLink(text, m.URL), maxTelegram)
}

// matrix returns a message as plain text. Only m.mentions mentions anybody, and without it "@room" in a text would.
func matrix(m message) any {
	users := []string{}
	text := mentions(m.mention, func(name string) string {
		if matrixUser().MatchString(name) {
			name = "@" + name
			users = append(users, name)
		}
		return name
	})
	text += m.titled("", asItIs, m.Text)
	return map[string]any{
		"msgtype": "m.text", "body": withLink(text, m.URL), "m.mentions": map[string]any{"user_ids": users},
	}
}

// cut shortens a text to so many characters, as receivers count them: those beyond U+FFFF as two.
func cut(s string, most int) string {
	n := 0
	for i, r := range s {
		n++
		if r > 0xffff {
			n++
		}
		if n >= most {
			return s[:i] + "…"
		}
	}
	return s
}

func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
