package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// A posted message is what a server of a chat gets.
type posted struct {
	method, path, query, auth string
	doc                       map[string]any
}

// posts sends a message to a server, whose address has a place and userinfo, and returns what it gets.
func posts(t *testing.T, f Format, userinfo, place string, m message, people bool) posted {
	t.Helper()
	var got posted
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = posted{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery,
			auth: r.Header.Get("Authorization")}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got.doc); err != nil {
			t.Errorf("%s: body %s: %v", f, body, err)
		}
	}))
	defer server.Close()
	h := Hook{Name: "chat", Kind: Webhook, Format: f,
		URL: strings.Replace(server.URL, "http://", "http://"+userinfo, 1) + place}
	c := carrier(t, t.TempDir(), h)
	if people {
		c.SetContacts(func(who string) Contact { return Contact{Chat: chatNames[f][who]} })
	}
	if err := c.post(t.Context(), &c.opt.Hooks[0], m); err != nil {
		t.Fatal(err)
	}
	return got
}

var chatNames = map[Format]map[string]string{
	Discord: {"mira": "80351110224678912", "kai": "kai"}, Telegram: {"mira": "mira_l", "kai": "80351110"},
	Matrix: {"mira": "mira:lab.example", "kai": "kai"}, Ntfy: {"mira": "mira"},
}

func TestChats(t *testing.T) {
	m := formsMessage(t, "@everyone @room <@&1> [x](http://e.example) **b** `c` #h")
	link := "\nhttps://lab.example/gpu/"
	escaped := "@\u2060everyone @\u2060room \\<@\u2060\\&1\\> \\[x\\]\\(http://e.example\\) \\*\\*b\\*\\* \\`c\\` \\#h"
	for _, c := range []struct {
		format          Format
		userinfo, place string
		want            posted
	}{
		{Discord, "", "/api/webhooks/1/secret", posted{"POST", "/api/webhooks/1/secret", "", "", map[string]any{
			"content":          "<@80351110224678912> @\u2060kai **GPU board**: " + escaped + link,
			"allowed_mentions": map[string]any{"parse": []any{}, "users": []any{"80351110224678912"}},
		}}},
		{Telegram, "", "/botSECRET/sendMessage?chat_id=-100",
			posted{"POST", "/botSECRET/sendMessage", "", "", map[string]any{
				"chat_id": "-100", "link_preview_options": map[string]any{"is_disabled": true},
				"text": "@mira_l 80351110 GPU board: @\u2060everyone @\u2060room <@\u2060&1> [x](http://e.example) **b** `c` #\u2060h" + link,
			}}},
		{Matrix, ":SECRET@", "/!room:lab.example", posted{"PUT", "", "", "Bearer SECRET", map[string]any{
			"msgtype": "m.text", "m.mentions": map[string]any{"user_ids": []any{"@mira:lab.example"}},
			"body": "@mira:lab.example kai GPU board: " + m.Text + link,
		}}},
		{Ntfy, ":SECRET@", "/sub/gpus", posted{"POST", "/sub/", "", "Bearer SECRET", map[string]any{
			"topic": "gpus", "message": m.Text, "title": "GPU board", "click": "https://lab.example/gpu/",
		}}},
		{Ntfy, "ada:word@", "/gpus", posted{"POST", "/", "", "Basic YWRhOndvcmQ=", map[string]any{
			"topic": "gpus", "message": m.Text, "title": "GPU board", "click": "https://lab.example/gpu/",
		}}},
	} {
		got := posts(t, c.format, c.userinfo, c.place, m, true)
		if c.format == Matrix {
			room, txn, _ := strings.Cut(got.path, "/send/m.room.message/")
			if room != "/_matrix/client/v3/rooms/%21room:lab.example" || len(txn) < 20 {
				t.Errorf("matrix: path %s", got.path)
			}
			if again := posts(t, c.format, c.userinfo, c.place, m, true); again.path != got.path {
				t.Errorf("sent again, it is another message: %s, and before %s", again.path, got.path)
			}
			got.path = ""
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.format, got, c.want)
		}
	}
}

func TestChatsWithoutPeopleMentionNobody(t *testing.T) {
	m := formsMessage(t, "x")
	if got := fmt.Sprint(
		posts(t, Discord, "", "/1", m, false).doc["allowed_mentions"]); got != "map[parse:[] users:[]]" {
		t.Errorf("discord: %s", got)
	}
	if got := fmt.Sprint(posts(t, Matrix, ":S@", "/!r:x", m, false).doc["m.mentions"]); got != "map[user_ids:[]]" {
		t.Errorf("matrix: %s", got)
	}
}

func TestChatsCutWhatIsTooLong(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 9000), strings.Repeat("\U0001f680", 3000),
		strings.Repeat("ö", 9000)} {
		m := formsMessage(t, text)
		count := func(s any) int { return len(utf16.Encode([]rune(s.(string)))) }
		if n := count(posts(t, Discord, "", "/1", m, false).doc["content"]); n > maxDiscord || n < 1990 {
			t.Errorf("discord gets %d characters", n)
		}
		if n := count(posts(t, Telegram, "", "/b?chat_id=1", m, false).doc["text"]); n > maxTelegram || n < 4000 {
			t.Errorf("telegram gets %d characters", n)
		}
		if got := posts(t, Ntfy, "", "/t", m, false).doc["message"].(string); len(got) > maxNtfy+4 ||
			!utf8.ValidString(got) {
			t.Errorf("ntfy gets %d bytes", len(got))
		}
	}
}

func TestAddressesOfChatsAreChecked(t *testing.T) {
	for url, f := range map[string]Format{
		"https://ntfy.sh/": Ntfy, "https://api.telegram.org/botSECRET/sendMessage": Telegram,
		"https://m.example/!r:m.example": Matrix,
		"https://:SECRET@m.example/":     Matrix,
	} {
		_, err := New(Options{Hooks: []Hook{{Name: "chat", Kind: Webhook, Format: f, URL: url}}})
		if err == nil || !strings.Contains(err.Error(), "reached at https://") ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s %s: %v", f, url, err)
		}
	}
}
