package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strconv"

	mail "github.com/wneessen/go-mail"
)

// implicitTLS is the port on which a connection begins with TLS (RFC 8314).
const implicitTLS = 465

// smtp hands a mail to the server of a hook. Errors name neither people nor what the server says: the board shows them.
func (c *Notifier) smtp(ctx context.Context, h *Hook, msg *mail.Msg) error {
	client, err := c.smtpClient(h)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if msg.IsDelivered() {
		return nil // and what went wrong afterwards would send it again
	}
	return smtpError(h.SMTP, err)
}

// smtpClient returns a client that sends nothing without TLS, unless the server is on this machine.
func (c *Notifier) smtpClient(h *Hook) (*mail.Client, error) {
	host, port, err := splitSMTP(h.SMTP)
	if err != nil {
		return nil, err
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTimeout(Budget), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithoutNoop()}
	login := mail.SMTPAuthAutoDiscover
	switch {
	case isLoopback(host):
		options, login = append(options, mail.WithTLSPolicy(mail.NoTLS)), mail.SMTPAuthPlainNoEnc
	case port == implicitTLS:
		options = append(options, mail.WithSSL())
	}
	if h.SMTPUser != "" {
		options = append(options, mail.WithSMTPAuth(login), mail.WithUsername(h.SMTPUser),
			mail.WithPassword(h.SMTPPassword))
	}
	if c.dial != nil {
		options = append(options, mail.WithDialContextFunc(c.dial),
			mail.WithTLSConfig(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: c.roots}))
	}
	return mail.NewClient(host, options...)
}

// smtpError says what the server answered, by number.
func smtpError(server string, err error) error {
	code := 0
	answer, _ := errors.AsType[*textproto.Error](err)
	sending, _ := errors.AsType[*mail.SendError](err)
	switch {
	case err == nil:
		return nil
	case sending != nil:
		code = sending.ErrorCode()
	case answer != nil:
		code = answer.Code
	}
	if code == 0 {
		if sending != nil {
			err = errors.New(sending.Reason.String()) // it goes on with recipients
		}
		return fmt.Errorf("handing mail to %s: %w", server, err)
	}
	return &refusal{
		err:       fmt.Errorf("handing mail to %s: it answered %d", server, code),
		permanent: code >= 500,
		recipient: code >= 500 && sending != nil && sending.Reason == mail.ErrSMTPRcptTo,
	}
}

// splitSMTP returns the host and port of a server.
func splitSMTP(server string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(server)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil || host == "" || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("smtp: %q is no server; write it as mail.example.org:587", server)
	}
	return host, port, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
