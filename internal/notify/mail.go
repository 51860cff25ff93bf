package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"
)

// maxSubject bounds a subject, in bytes.
const maxSubject = 180

// messageID names a mail, so that one that is sent again is the same.
func messageID(h *Hook, m message) string {
	domain := strings.TrimSuffix(h.From[strings.LastIndex(h.From, "@")+1:], ">")
	id := sha256.Sum256([]byte(h.Name + "\n" + m.to + "\n" + m.ID))
	return fmt.Sprintf("%x@%s", id[:16], domain)
}

// letter is the text of a mail.
func (m message) letter() string {
	text := m.Text
	if len(m.Events) == 1 {
		text += "\n\nat " + m.At.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if m.URL != "" {
		text += "\n\n" + m.URL
	}
	return text + "\n"
}

// mail passes a message to the SMTP server, or to sendmail, which reads the recipients from it.
func (c *Notifier) mail(ctx context.Context, h *Hook, m message) error {
	to, err := c.recipients(h, m)
	if err != nil || len(to) == 0 {
		return err
	}
	if h.SMTP != "" {
		return c.smtp(ctx, h, to, m)
	}
	data, err := mailText(h, to, m)
	if err != nil {
		return fmt.Errorf("writing the mail: %w", err)
	}
	return execute(ctx, []string{h.Sendmail, "-t", "-i"}, data, nil)
}

// mailText returns the message in the format of RFC 5322, with the line ends of this system.
func mailText(h *Hook, recipients []string, m message) ([]byte, error) {
	from, err := mail.ParseAddress(h.From)
	if err != nil {
		return nil, err
	}
	var to []string
	for _, a := range recipients {
		addr, err := mail.ParseAddress(a)
		if err != nil {
			return nil, err
		}
		to = append(to, addr.String())
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	header("From", from.String())
	header("To", strings.Join(to, ",\n "))
	header("Subject", subject(m.subject()))
	header("Date", m.At.Format(time.RFC1123Z))
	header("Message-ID", "<"+messageID(h, m)+">")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	// Tells other programs not to send automatic replies (RFC 3834).
	header("Auto-Submitted", "auto-generated")
	header("X-Gpuboard-Event", string(m.Kind))
	b.WriteByte('\n')
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(m.letter())); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("\r\n"), []byte("\n")), nil
}

// subject encodes and folds a subject line (RFC 2047). mime.BEncoding does not fold.
func subject(s string) string {
	const most, plain, chunk = 180, 65, 39 // runes; bytes left unencoded; bytes of an encoded word
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= plain && !strings.Contains(s, "=?") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	var words []string
	for len(s) > 0 {
		n := min(len(s), chunk)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n-- // a word holds whole characters
		}
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(words, "\n ")
}
