package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/events"
)

const evil = "@all <!channel> [x](http://e.example) *b* & \"q\" größe 日本"

func formsMessage(t *testing.T, text string) message {
	t.Helper()
	c := carrier(t, t.TempDir())
	gpu := 3
	e := events.Event{ID: "gpu-lost/atlas/GPU-1/20261120T060000Z", Kind: events.GPULost, Host: "atlas", GPU: &gpu,
		UUID: "GPU-1", At: start, Users: []string{"mira", "kai"}, Booking: "b1", Summary: text}
	return c.eventMessage([]item{{ID: e.ID, Event: &e}}, 0, start)
}

func bodyOf(t *testing.T, f Format, m message) map[string]any {
	t.Helper()
	h := Hook{Format: f, URL: "https://chat.example/"}
	r, err := h.request(m)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := encoded(r.doc)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return doc
}

func TestFormats(t *testing.T) {
	m := formsMessage(t, evil)
	if got, want := bodyOf(t, Slack,
		m)["text"],
		"*GPU board*: @all &lt;!channel&gt; [x](http://e.example) *b* &amp; \"q\" größe 日本\nhttps://lab.example/gpu/"; got != want {
		t.Errorf("slack: %q\nwant %q", got, want)
	}
	mm := bodyOf(t, Mattermost, m)["text"].(string)
	for _, bad := range []string{"@all", "<!channel>", "[x](", " *b*"} {
		if strings.Contains(mm, bad) {
			t.Errorf("mattermost obeys %q in %q", bad, mm)
		}
	}
	for _, good := range []string{"**GPU board**: ", "größe 日本", "https://lab.example/gpu/"} {
		if !strings.Contains(mm, good) {
			t.Errorf("mattermost lacks %q in %q", good, mm)
		}
	}
	teams := bodyOf(t, Teams, m)
	card := teams["attachments"].([]any)[0].(map[string]any)
	content := card["content"].(map[string]any)
	if teams["type"] != "message" || card["contentType"] != "application/vnd.microsoft.card.adaptive" ||
		content["type"] != "AdaptiveCard" || len(content["body"].([]any)) != 2 {
		t.Errorf("teams: %v", teams)
	}
	js := bodyOf(t, JSON, m)
	if js["id"] != m.ID || js["kind"] != "gpu-lost" || js["gpu"] != 3.0 || js["host"] != "atlas" ||
		js["summary"] != evil || len(js["events"].([]any)) != 1 || js["url"] != "https://lab.example/gpu/" {
		t.Errorf("json: %v", js)
	}
}

// The largest message fits into what the smallest receiver takes.
func TestMessagesFit(t *testing.T) {
	c := carrier(t, t.TempDir())
	var items []item
	for i := range maxTogether {
		e := event(i)
		e.Summary = strings.Repeat("<", 500)
		items = append(items, item{ID: e.ID, Event: &e})
	}
	m := c.eventMessage(items, 7, start)
	if len(m.Events) != maxTogether || !strings.Contains(m.Text, "and 37 more") {
		t.Errorf("%d events, text ends %q", len(m.Events), m.Text[len(m.Text)-90:])
	}
	for _, f := range []Format{Mattermost, Teams} {
		h := Hook{Format: f}
		if raw, err := encoded(h.doc(m)); err != nil || len(raw) > 28<<10 {
			t.Errorf("%s: %d bytes, %v", f, len(raw), err)
		}
	}
	again := c.eventMessage(items, 0, start.Add(time.Hour))
	if again.ID != m.ID || len(m.ID) > 100 {
		t.Errorf("ids %s and %s", m.ID, again.ID)
	}
}

func TestMail(t *testing.T) {
	dir := t.TempDir()
	sendmail := filepath.Join(dir, "sendmail")
	script := "#!/bin/sh\nif [ -e " + dir +
		"/down ]; then echo 'queue is \x1b[31mfull' >&2; exit 75; fi\necho \"$@\" > " + dir + "/args\ncat > " + dir +
		"/letter\n"
	if err := os.WriteFile(sendmail, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	h := Hook{Name: "m", Kind: Mail, From: "GPU Bördchen <board@lab.example>",
		To: []string{"a@lab.example", "Müller <b@lab.example>"}, Sendmail: sendmail}
	c := carrier(t, dir, h)
	e := event(1)
	e.Summary = strings.Repeat(evil+" ", 3) + "\r\nBcc: x@example.org" // no event has line ends; a mail has to hold even so
	if err := os.WriteFile(filepath.Join(dir, "down"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	accept(t, c, start, e)
	got := c.Deliver(t.Context(), start)
	if len(got) != 1 || !strings.Contains(got[0].Err.Error(), "exit status 75: queue is") ||
		strings.Contains(got[0].Err.Error(), "\x1b") {
		t.Fatalf("trouble %+v", got)
	}
	if err := os.Remove(filepath.Join(dir, "down")); err != nil {
		t.Fatal(err)
	}
	if got := c.Deliver(t.Context(), start.Add(time.Hour)); len(got) != 0 {
		t.Fatalf("trouble %+v", got)
	}
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	raw, err := os.ReadFile(filepath.Join(dir, "letter"))
	if err != nil || string(args) != "-t -i\n" {
		t.Fatalf("args %q, %v", args, err)
	}
	for i, line := range bytes.Split(raw, []byte("\n")) {
		if len(line) > 78 || bytes.ContainsAny(line, "\r\x00") ||
			bytes.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
			t.Errorf("line %d is not one of a mail: %q", i+1, line)
		}
	}
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	dec := new(mime.WordDecoder)
	subj, err := dec.DecodeHeader(msg.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subj, "GPU board: @all <!channel>") {
		t.Errorf("subject %q, %v", subj, err)
	}
	if msg.Header.Get("Bcc") != "" {
		t.Error("a summary wrote a header")
	}
	to, err := msg.Header.AddressList("To")
	if err != nil || len(to) != 2 || to[1].Name != "Müller" {
		t.Errorf("to %v, %v", to, err)
	}
	if at, err := msg.Header.Date(); err != nil || !at.Equal(start) {
		t.Errorf("date %v, %v", at, err)
	}
	if id := msg.Header.Get("Message-ID"); !strings.HasSuffix(id, "@lab.example>") || len(id) < 40 {
		t.Errorf("message id %q", id)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
	if err != nil || !strings.Contains(string(body), "größe 日本") ||
		!strings.Contains(string(body), "\nat 2026-11-20 06:00:00 UTC\n") ||
		!strings.Contains(string(body), "https://lab.example/gpu/") {
		t.Errorf("body %q, %v", body, err)
	}
	var texts [2]bytes.Buffer
	for i := range texts {
		same, err := mailOf(&h, h.To, formsMessage(t, "x"))
		if err == nil {
			_, err = same.WriteTo(&texts[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
		t.Error("the same message is another mail when it is sent again")
	}
}

func TestCommand(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "SECRET")
	dir := t.TempDir()
	program := filepath.Join(dir, "hook")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv > \"$1/env\"\ncat >> \"$1/stdin\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := Hook{Name: "c", Kind: Command, Command: []string{program, dir, "$(touch " + dir + "/shell)"}}
	c := carrier(t, dir, h)
	m := formsMessage(t, evil)
	accept(t, c, start, m.Events[0])
	if got := c.Deliver(t.Context(), start); len(got) != 0 {
		t.Fatalf("trouble %+v", got)
	}
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	for _, want := range []string{"GPUBOARD_EVENT_KIND=gpu-lost\n", "GPUBOARD_EVENT_HOST=atlas\n",
		"GPUBOARD_EVENT_GPU=3\n", "GPUBOARD_EVENT_USERS=mira,kai\n", "GPUBOARD_EVENT_SUMMARY=" + evil + "\n", "PATH="} {
		if !strings.Contains(string(env), want) {
			t.Errorf("the environment lacks %q:\n%s", want, env)
		}
	}
	if strings.Contains(string(env), "SECRET") {
		t.Error("a hook is given a token that is not its business")
	}
	var doc message
	raw, _ := os.ReadFile(filepath.Join(dir, "stdin"))
	if err := json.Unmarshal(raw, &doc); err != nil || doc.ID != m.ID || doc.Events[0].Summary != evil ||
		bytes.Count(raw, []byte("\n")) != 1 {
		t.Errorf("stdin %s, %v", raw, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shell")); err == nil {
		t.Error("a shell read the arguments")
	}

	// A program that takes no interest in its input is no failure; one that is not there is.
	for argv, bad := range map[string]bool{"true": false, "false": true, filepath.Join(dir, "none"): true} {
		outcome := carrier(t, dir, Hook{Name: "c", Kind: Command, Command: []string{argv}}).Test(t.Context(), start)
		if len(outcome) != 1 || (outcome[0].Err != nil) != bad || outcome[0].Where != argv {
			t.Errorf("%s: %+v", argv, outcome)
		}
	}
}

func TestOutcomesHideSecrets(t *testing.T) {
	r := newReceiver(t)
	c := carrier(t, t.TempDir(), hook("a", r.URL+"/SECRET"), hook("b", "http://127.0.0.1:1/SECRET"))
	got := c.Test(t.Context(), start)
	if got[0].Err != nil || got[0].Where != r.URL+"/…" || got[1].Err == nil ||
		strings.Contains(got[1].Err.Error(), "SECRET") {
		t.Errorf("outcomes %+v", got)
	}
	wantIDs(t, r, "test/20261120T060000Z")
	if _, err := os.Stat(c.opt.Outbox); err == nil {
		t.Error("a test left something in the outbox")
	}
}

// What a hook's program started ends with it when its time is over.
func TestNothingIsLeftRunning(t *testing.T) {
	dir := t.TempDir()
	c := carrier(t, dir,
		Hook{Name: "c", Kind: Command, Command: []string{"sh", "-c", "sleep 600 & echo $! > " + dir + "/pid; wait"}})
	accept(t, c, start, event(1))
	ctx := budgetUntil(t, func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "pid"))
		return len(raw) > 0
	})
	if got := c.Deliver(ctx, start); len(got) != 1 {
		t.Fatalf("trouble %+v", got)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(raw)) + "/stat")
	if err == nil && !strings.Contains(string(stat), ") Z ") { // a zombie waits for init, and is dead
		t.Errorf("still running: %s", stat)
	}
}
