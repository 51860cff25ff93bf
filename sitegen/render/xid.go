package render

import (
	"encoding/json"
	"io/fs"
	"strconv"
	"sync"

	"gpuboard/templates"
)

// XIDMeaning says in words what an XID means and what to do, by a list of words.
func XIDMeaning(list map[string]string, code int) string {
	if s, ok := list["xid."+strconv.Itoa(code)]; ok {
		return s
	}
	if code >= 144 && code <= 150 {
		return list["xid.nvlink"]
	}
	return list["xid.other"]
}

// EnglishXID is the meaning for programs and terminals, which get no site's own words.
func EnglishXID(code int) string { return XIDMeaning(EnglishWords(), code) }

// EnglishWords is the built-in list of words; nobody may change it.
var EnglishWords = sync.OnceValue(func() map[string]string {
	list := map[string]string{}
	if text, err := fs.ReadFile(templates.Files(), "words/en.json"); err == nil {
		_ = json.Unmarshal(text, &list) // embedded, and read by every test
	}
	return list
})
