package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	mail "github.com/wneessen/go-mail"
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
	msg, err := mailOf(h, to, m)
	if err != nil {
		return fmt.Errorf("writing the mail: %w", err)
	}
	if h.SMTP != "" {
		return c.smtp(ctx, h, msg)
	}
	var text bytes.Buffer
	if _, err := msg.WriteTo(&text); err != nil {
		return fmt.Errorf("writing the mail: %w", err)
	}
	// A program reads lines with the ends of this system.
	data := bytes.ReplaceAll(text.Bytes(), []byte("\r\n"), []byte("\n"))
	return execute(ctx, []string{h.Sendmail, "-t", "-i"}, data, nil)
}

func mailOf(h *Hook, to []string, m message) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(h.From), msg.To(to...)); err != nil {
		return nil, err
	}
	msg.Subject(printable(m.subject(), maxSubject))
	msg.SetDateWithValue(m.At)
	msg.SetMessageIDWithValue(messageID(h, m))
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // no automatic replies (RFC 3834)
	msg.SetGenHeader("X-Gpuboard-Event", string(m.Kind))
	msg.SetBodyString(mail.TypeTextPlain, m.letter())
	return msg, nil
}
