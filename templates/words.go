package templates

import (
	"fmt"

	"github.com/a-h/templ"
)

// Words are the texts of a site in one language, by key.
type Words struct {
	list     map[string]string
	plural   func(n int) string
	markdown func(text string) templ.Component
}

// NewWords makes Words of a list. plural returns the plural form of a number in the
// language: zero, one, two, few, many or other. markdown renders the texts that
// have emphasis, code or links in them.
func NewWords(list map[string]string, plural func(n int) string, markdown func(text string) templ.Component) Words {
	return Words{list, plural, markdown}
}

// T returns the text for a key, with args in the places of its verbs. A key that
// is not in the list stands for itself.
func (w Words) T(key string, args ...any) string {
	text, ok := w.list[key]
	switch {
	case !ok:
		return key
	case len(args) == 0:
		return text
	}
	return fmt.Sprintf(text, args...)
}

// Count says how many there are of something: the text for key and the plural form
// of n, such as key.one, or else the text for key.other. It has n in its place, or
// args where there are some.
func (w Words) Count(n int, key string, args ...any) string {
	if len(args) == 0 {
		args = []any{n}
	}
	form := key + "." + w.plural(n)
	if _, ok := w.list[form]; !ok {
		form = key + ".other"
	}
	return w.T(form, args...)
}

// Prose is a text with emphasis, code and links.
func (w Words) Prose(key string, args ...any) templ.Component {
	return w.markdown(w.T(key, args...))
}
