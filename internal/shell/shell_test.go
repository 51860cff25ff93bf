package shell

import (
	"os/exec"
	"strings"
	"testing"
)

func TestQuoteIsReadBack(t *testing.T) {
	words := []string{"", "plain", "two words", "it's", `"`, `\`, "$HOME", "`id`", "~/x", "a;b", "*", "-n", "#", "a=b",
		"é\n\tz", "!!", "{a,b}", "<>|&()"}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+Join(words...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), strings.Join(words, "\x00")+"\x00"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := Join("gpuboard", "book", "gpu01:0,1",
		"--until=fri 18:00"); got != "gpuboard book gpu01:0,1 '--until=fri 18:00'" {
		t.Errorf("plain words are quoted: %s", got)
	}
}
