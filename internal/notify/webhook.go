package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswerBytes limits what is read of an answer, of which mostly the status counts.
const maxAnswerBytes = 16 << 10

// newClient returns an HTTP client that verifies TLS and follows no redirects, so that no
// other server gets the message.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: Budget,
			MaxResponseHeaderBytes: maxAnswerBytes, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends a message to a webhook. Errors omit the path of the URL, which is a secret.
func (c *Notifier) post(ctx context.Context, h *Hook, m message) error {
	m.mention = c.chats(m)
	r, err := h.request(m)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	body, err := encoded(r.doc)
	if err != nil {
		return fmt.Errorf("making the message: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("making the request: the url cannot be used")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "gpuboard")
	req.Header.Set("Idempotency-Key", strconv.QuoteToASCII(m.ID))
	answer, err := c.client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // the outer one repeats the whole URL
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
		}
		return fmt.Errorf("posting to %s: %w", withoutSecret(h.URL), err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes)) // the status has decided
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	refused := &refusal{err: fmt.Errorf("posting to %s: it answered %d%s", withoutSecret(h.URL), answer.StatusCode,
		reason(said))}
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && s > 0 {
			refused.after = min(time.Duration(min(s, 1<<20))*time.Second, maxPause)
		}
	case code >= 300 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooEarly:
		refused.permanent = true
	}
	return refused
}

// reason returns an answer of one word, such as Slack's "invalid_token". Others may quote.
func reason(said []byte) string {
	word := strings.TrimSpace(string(said))
	if word == "" || len(word) > 40 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return ", " + word
}

// doc is the body of a message for the formats whose address is used as it is.
func (h *Hook) doc(m message) any {
	switch h.Format {
	case JSON:
		return m
	case Teams:
		return teamsCard(m)
	case Mattermost:
		text := mentions(m.mention, func(name string) string { return "@" + name }) + escapeMarkdown(m.Text)
		text = m.titled("**", escapeMarkdown, text)
		return map[string]string{"text": withLink(strings.ReplaceAll(text, "\n", "  \n"), m.URL)}
	default:
		text := m.titled("*", escapeSlack, mentions(m.mention, slackMention)+escapeSlack(m.Text))
		return map[string]string{"text": withLink(text, m.URL)}
	}
}

func encoded(doc any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func withLink(text, link string) string {
	if link == "" {
		return text
	}
	return text + "\n" + link
}

// mentions returns the beginning of a message that mentions people, as a format writes that.
func mentions(names []string, as func(string) string) (text string) {
	for _, name := range names {
		text += as(name) + " "
	}
	return text
}

// titled is a text behind the title of the board, if that has one, as a format writes it.
func (m message) titled(mark string, escape func(string) string, text string) string {
	if m.Title == "" {
		return text
	}
	return mark + escape(m.Title) + mark + ": " + text
}

func asItIs(s string) string { return s }

// slackMention mentions somebody by the ID of a member. Slack knows no other way, and a name is only shown.
func slackMention(name string) string {
	if slackMember().MatchString(name) {
		return "<@" + name + ">"
	}
	return "@" + escapeSlack(name)
}

// escapeSlack escapes the special characters of Slack, which also disables mentions.
func escapeSlack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// escapeMarkdown escapes Markdown and, with an invisible word joiner, mentions: "@all" in a
// comment would notify everybody.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]()<>#+!|~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		if r == '@' {
			b.WriteRune('\u2060')
		}
	}
	return b.String()
}

// teamsCard returns an Adaptive Card in the envelope of Teams workflows.
func teamsCard(m message) any {
	type object = map[string]any
	var blocks []object
	if m.Title != "" {
		blocks = append(blocks,
			object{"type": "TextBlock", "text": escapeMarkdown(m.Title), "weight": "Bolder", "wrap": true})
	}
	for line := range strings.SplitSeq(m.Text, "\n") {
		blocks = append(blocks,
			object{"type": "TextBlock", "text": escapeMarkdown(line), "wrap": true, "spacing": "Small"})
	}
	var entities []object
	for _, name := range m.mention { // by user principal name, or the ID of a user
		at := "<at>" + name + "</at>"
		blocks = append(blocks, object{"type": "TextBlock", "text": at, "wrap": true, "spacing": "Small"})
		entities = append(entities,
			object{"type": "mention", "text": at, "mentioned": object{"id": name, "name": name}})
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
		"version": "1.4", "body": blocks}
	if len(entities) > 0 {
		card["msteams"] = object{"entities": entities}
	}
	if m.URL != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "GPU board", "url": m.URL}}
	}
	return object{"type": "message", "attachments": []object{{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card,
	}}}
}

// withoutSecret returns the server of a URL, which may be printed.
func withoutSecret(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the webhook"
	}
	return u.Scheme + "://" + u.Host + "/…"
}
