package cli

import "gpuboard/internal/notify"

// HookWords are the words that an entry of notify may hold.
func HookWords() []string {
	words := hookFields()
	for _, k := range notify.Kinds() {
		words = append(words, string(k))
	}
	for _, f := range notify.Formats() {
		words = append(words, string(f))
	}
	return words
}
