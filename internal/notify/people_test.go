package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/events"
)

func reached(person string) Contact {
	return map[string]Contact{
		"ada": {"ada@lab.example", "U012AB3CD"}, "kai": {"kai@lab.example", "kai.b"}, "mia": {"", "@mia"},
	}[person]
}

func concerns(n int, people ...string) events.Event {
	e := event(n)
	e.ID, e.Kind, e.Users, e.Summary = fmt.Sprint("e", n), events.GPUIdle, people, fmt.Sprint("thing ", n)
	return e
}

// letters is a mail hook to people, whose sendmail keeps the recipients of each mail.
func letters(t *testing.T) (c *Notifier, sentTo func() []string) {
	dir := t.TempDir()
	sendmail, sent := filepath.Join(dir, "sendmail"), filepath.Join(dir, "sent")
	script := "#!/bin/sh\nsed -n '/^To:/,/^Content-/{/^Content-/d;s/^To://;p}' | tr -d ' \\n' >>" + sent + "; echo >>" +
		sent + "\n"
	if err := os.WriteFile(sendmail, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c = carrier(t, dir,
		Hook{Name: "m", Kind: Mail, From: "board@lab.example", To: []string{ToPeople}, Sendmail: sendmail,
			PerMinute: 2})
	return c, func() []string {
		text, _ := os.ReadFile(sent)
		return strings.Fields(string(text))
	}
}

// Each person gets what concerns them and nothing else, also where events are combined. Whoever has no address gets
// nothing, and delays nobody.
func TestMailGoesToWhomItConcerns(t *testing.T) {
	c, got := letters(t)
	accept(t, c, start, concerns(1, "mia"), concerns(2, "ada"), concerns(3, "kai"), concerns(4, "kai"),
		concerns(5, "ada"), event(6), concerns(7, "ada", "kai"))
	if list := c.Deliver(t.Context(), start); len(list) != 1 || list[0].Err == nil || len(got()) != 0 {
		t.Fatalf("before it is known how people are reached: %+v, and sent %v", list, got())
	}
	c.SetContacts(reached)
	for minute := range 10 {
		if list := c.Deliver(t.Context(), start.Add(time.Duration(minute+1)*time.Minute)); len(list) != 0 {
			t.Fatalf("trouble %+v", list)
		}
	}
	want := []string{"<ada@lab.example>", "<kai@lab.example>", "<ada@lab.example>", "<kai@lab.example>"}
	if to := got(); !slices.Equal(to, want) {
		t.Errorf("mail went to %q, want %q", to, want)
	}
}

func TestPeopleAreMentioned(t *testing.T) {
	c := carrier(t, t.TempDir())
	c.SetContacts(reached)
	e := concerns(1, "ada", "kai", "eve")
	e.Summary = "@all <@U99999999> thing"
	m := c.eventMessage([]item{{ID: e.ID, Event: &e}}, 0, start)
	m.mention = c.chats(m)
	for f, want := range map[Format]string{
		Slack:      "<@U012AB3CD> @kai.b @all &lt;@U99999999&gt; thing",
		Mattermost: "@U012AB3CD @kai.b @\u2060all \\<@\u2060U99999999\\> thing",
	} {
		if got := bodyOf(t, f, m)["text"].(string); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", f, got, want)
		}
	}
	card := bodyOf(t, Teams, m)["attachments"].([]any)[0].(map[string]any)["content"].(map[string]any)
	if got := fmt.Sprint(card["msteams"]); !strings.Contains(got,
		"mentioned:map[id:kai.b name:kai.b] text:<at>kai.b</at> type:mention") {
		t.Errorf("teams: %s", got)
	}
}

func TestHooksToPeopleAreChecked(t *testing.T) {
	h := Hook{Name: "m", Kind: Mail, From: "board@lab.example", To: []string{ToPeople}, Daily: "08:00"}
	if _, err := New(Options{Hooks: []Hook{h}}); err == nil {
		t.Error("a daily summary concerns nobody, and the hook is accepted")
	}
	h.Daily, h.To = "", []string{ToPeople, "a@lab.example"}
	if _, err := New(Options{Hooks: []Hook{h}}); err == nil {
		t.Error("people and addresses in one hook are accepted")
	}
}
