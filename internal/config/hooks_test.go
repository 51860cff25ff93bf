package config

import (
	"os"
	"strings"
	"testing"

	"gpuboard/internal/notify"
)

// TestTheManualHasEveryWordOfHooks reads docs/notify.md.
func TestTheManualHasEveryWordOfHooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/notify.md")
	if err != nil {
		t.Fatal(err)
	}
	words := append(texts(notify.Kinds()), texts(notify.Formats())...)
	for name := range (&file{}).hookFields(&Hook{}, new(string)) {
		words = append(words, name)
	}
	for _, word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("the page does not tell of %s", word)
		}
	}
}
