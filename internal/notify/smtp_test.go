package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// An smtpServer keeps the mails that it gets. It refuses the recipients in refuses, each with its answer.
type smtpServer struct {
	net.Listener
	starttls *tls.Config // nil: it has no TLS
	refuses  map[string]string
	hangsUp  bool // after a mail, without an answer to QUIT

	mu    sync.Mutex
	mails []string // recipients and text
	lines []string // what it was told besides
}

func newSMTP(t *testing.T, s *smtpServer) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *smtpServer) serve(c net.Conn) {
	defer func() { c.Close() }()
	in := bufio.NewReader(c)
	say := func(lines ...string) { io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n") }
	say("220 mail.lab.example ESMTP")
	var to []string
	secret := false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			offers := []string{"250-mail.lab.example"}
			if s.starttls != nil && !secret {
				offers = append(offers, "250-STARTTLS")
			}
			say(append(offers, "250 AUTH PLAIN")...)
		case "STARTTLS":
			say("220 go on")
			t := tls.Server(c, s.starttls)
			if t.Handshake() != nil {
				return
			}
			c, in, secret = t, bufio.NewReader(t), true
		case "AUTH":
			login, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			if string(login) != "\x00board\x00pass word" {
				say("535 5.7.8 no: " + string(login))
				continue
			}
			say("235 welcome")
		case "RCPT":
			address := strings.TrimSuffix(strings.TrimPrefix(rest, "TO:<"), ">")
			if answer := s.refuses[address]; answer != "" {
				say(answer)
				continue
			}
			to = append(to, address)
			say("250 ok")
		case "DATA":
			say("354 go on")
			text := ""
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text += line
			}
			s.mu.Lock()
			s.mails = append(s.mails, strings.Join(to, ",")+"\n"+text)
			s.mu.Unlock()
			to = nil
			say("250 kept")
			if s.hangsUp {
				return
			}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *smtpServer) got() (mails []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// elsewhere makes a hook's server one of another machine for the notifier.
func (s *smtpServer) elsewhere(c *Notifier, roots *x509.CertPool) {
	c.roots = roots
	c.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Addr().String())
	}
}

// certificate returns one for example.com, and what trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates}, roots
}

func mailHook(server string, to ...string) Hook {
	return Hook{Name: "m", Kind: Mail, From: "GPU Bördchen <board@lab.example>", To: to, SMTP: server, PerMinute: 60}
}

func TestMailBySMTP(t *testing.T) {
	s := newSMTP(t, &smtpServer{hangsUp: true})
	h := mailHook(s.Addr().String(), "a@lab.example", "Müller <b@lab.example>")
	h.SMTPUser, h.SMTPPassword = "board", "pass word"
	c := carrier(t, t.TempDir(), h)
	e := event(1)
	e.Summary = strings.Repeat(evil+" ", 3) + "\r\nBcc: x@example.org"
	accept(t, c, start, e)
	if list := c.Deliver(t.Context(), start); len(list) != 0 {
		t.Fatalf("trouble %+v: the mail was taken, and only the goodbye failed", list)
	}
	got := s.got()
	if len(got) != 1 {
		t.Fatalf("%d mails", len(got))
	}
	to, text, _ := strings.Cut(got[0], "\n")
	if to != "a@lab.example,b@lab.example" {
		t.Errorf("it went to %s", to)
	}
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
	if err != nil || !strings.Contains(string(body), "größe 日本") ||
		!strings.Contains(string(body), "https://lab.example/gpu/") {
		t.Errorf("body %q, %v", body, err)
	}
	for name, want := range map[string]string{
		"From": "=?UTF-8?q?GPU_B=C3=B6rdchen?= <board@lab.example>", "Bcc": "", "Auto-Submitted": "auto-generated",
		"X-Gpuboard-Event": "host-down", "User-Agent": "", "Date": "Fri, 20 Nov 2026 06:00:00 +0000",
		"Message-Id": "<" + messageID(&c.opt.Hooks[0], message{Event: e}) + ">",
	} {
		if got := msg.Header.Get(name); !strings.EqualFold(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// To another machine goes nothing without TLS, and nothing to one whose certificate is not its own. What went wrong
// names neither password nor people.
func TestMailToAnotherMachineNeedsTLS(t *testing.T) {
	config, roots := certificate(t)
	for name, c := range map[string]struct {
		server         *smtpServer
		host, password string
		sent           bool
		said           string
	}{
		"with TLS":           {&smtpServer{starttls: config}, "example.com:587", "pass word", true, ""},
		"without":            {&smtpServer{}, "example.com:587", "pass word", false, "STARTTLS"},
		"another's name":     {&smtpServer{starttls: config}, "other.example:587", "pass word", false, "certificate"},
		"the wrong password": {&smtpServer{starttls: config}, "example.com:587", "secret42", false, "it answered 535"},
	} {
		s := newSMTP(t, c.server)
		h := mailHook(c.host, "ada@lab.example")
		h.SMTPUser, h.SMTPPassword = "board", c.password
		n := carrier(t, t.TempDir(), h)
		s.elsewhere(n, roots)
		accept(t, n, start, event(1))
		list := n.Deliver(t.Context(), start)
		if sent := len(s.got()) == 1; sent != c.sent || sent != (len(list) == 0) {
			t.Errorf("%s: %d mails, trouble %+v", name, len(s.got()), list)
		}
		for _, trouble := range list {
			if said := trouble.Err.Error(); !strings.Contains(said, c.said) || strings.Contains(said, "secret42") ||
				strings.Contains(said, "ada@") {
				t.Errorf("%s: %s", name, said)
			}
		}
		if !c.sent && strings.Contains(strings.Join(s.lines, "\n"), "MAIL FROM") {
			t.Errorf("%s: it was told %q", name, s.lines)
		}
	}
}

// A wrong address of one person keeps nothing from others; a server that is busy is asked again.
func TestMailToAWrongAddress(t *testing.T) {
	s := newSMTP(t,
		&smtpServer{refuses: map[string]string{"ada@lab.example": "550 5.1.1 nobody here is called ada@lab.example"}})
	c := carrier(t, t.TempDir(), mailHook(s.Addr().String(), ToPeople))
	c.SetContacts(reached)
	accept(t, c, start, concerns(1, "ada"), concerns(2, "kai", "ada"))
	for hour := range 4 {
		for _, trouble := range c.Deliver(t.Context(), start.Add(time.Duration(hour)*time.Hour)) {
			if said := trouble.Err.Error(); said != fmt.Sprintf("handing mail to %s: it answered 550", s.Addr()) ||
				!trouble.Refused {
				t.Errorf("trouble %q", said)
			}
		}
	}
	if got := s.got(); len(got) != 1 || !strings.HasPrefix(got[0], "kai@lab.example\n") {
		t.Errorf("mails %q", got)
	}
	busy := newSMTP(t, &smtpServer{refuses: map[string]string{"kai@lab.example": "451 4.7.1 later"}})
	c = carrier(t, t.TempDir(), mailHook(busy.Addr().String(), ToPeople))
	c.SetContacts(reached)
	accept(t, c, start, concerns(1, "kai"))
	if list := c.Deliver(t.Context(), start); len(list) != 1 || list[0].Refused || list[0].Waiting != 1 {
		t.Errorf("trouble %+v", list)
	}
}

func TestServersOfMailAreChecked(t *testing.T) {
	for _, bad := range []string{"mail.lab.example", ":25", "mail.lab.example:0", "mail.lab.example:smtp"} {
		if _, err := New(Options{Hooks: []Hook{mailHook(bad, "a@lab.example")}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
