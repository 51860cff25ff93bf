package config

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpuboard/internal/spelling"
)

// mistake says what is wrong in a line of the file and how to mend it, where the parser's message speaks of its own
// state; else it returns that message. It counts columns from 1.
func mistake(lines []string, line, column int, message string) (int, int, string) {
	text := ""
	if line > 0 && line <= len(lines) {
		text = lines[line-1]
	}
	blanks := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	tab := strings.IndexByte(blanks, '\t')
	matches := func(expr, in string) bool { return regexp.MustCompile(expr).MatchString(in) }
	blank := regexp.MustCompile(`^[ \t]*(?:- +)?([\w-]+:)[^\s:/]`).FindStringSubmatchIndex(text)
	again := regexp.MustCompile(`^mapping key "(.*)" already defined at \[(\d+):`).FindStringSubmatch(message)
	switch {
	case again != nil:
		message = fmt.Sprintf(
			"%s stands in line %s already: keep one of the two lines, and below it what is below both",
			again[1], again[2])
	case tab >= 0:
		column, message = tab+1, "here is a tab: write blanks instead"
	case blank != nil:
		column, message = blank[3], "write a blank behind "+text[blank[2]:blank[3]]
	case matches(`^[ \t]*-[^\s-]`, text):
		column, message = len(blanks)+1, "write a blank behind the dash"
	case strings.HasPrefix(message, "mapping value is not allowed") && matches(`: .*:( |$)`, text):
		message = "write the value in quotes, because it has a colon in it"
	case strings.HasPrefix(message, "mapping value is not allowed"):
		line, column = line+1, 1
		message = "this line begins further to the right than the one before: write it below the beginning of that one"
	case strings.HasSuffix(message, "is a reserved character"), strings.HasPrefix(message, "unexpected directive"):
		message = "write the value in quotes, because of the sign with which it begins"
	case strings.HasPrefix(message, "non-map value"):
		message = "write this line as key: value, with a colon and a blank between the two"
	case matches(`end character of|(must be specified|not found)$`, message):
		message = "a quote or bracket that begins here, or before, has no end"
	}
	return line, column, message
}

// languages are the codes for which the program has words, and what people call them.
func languages() map[string]string {
	return map[string]string{
		"de": "german deutsch", "en": "english", "es": "spanish español espanol castellano",
		"fr": "french français francais", "ja": "japanese jp 日本語", "zh": "chinese cn 中文",
	}
}

// checkLanguages returns an error for a language for which neither the program nor the site has words.
func (c *Config) checkLanguages() error {
	known := languages()
	codes := slices.Sorted(maps.Keys(known))
	for _, name := range []string{"language", "languages"} {
		for _, lang := range c.List(name) {
			own := filepath.Join("words", lang+".json")
			if known[lang] != "" || c.String("templates") != "" && IsFile(filepath.Join(c.String("templates"), own)) {
				continue
			}
			near := ""
			for _, code := range codes {
				said := strings.ToLower(lang)
				region := strings.HasPrefix(strings.ReplaceAll(said, "_", "-")+"-", code+"-")
				if region || spelling.Nearest(said, strings.Fields(known[code]), 2) != "" {
					near = fmt.Sprintf("; did you mean %q?", code)
				}
			}
			return errorf("%s: %s: %q is none of %s%s (another one needs %s in the directory of templates)",
				c.position(name), name, lang, strings.Join(codes, ", "), near, own)
		}
	}
	return nil
}

// position is where a value stands: FILE:LINE:COL, a variable or a flag.
func (c *Config) position(name string) string {
	if c.InFile(name) {
		return fmt.Sprintf("%s:%d", c.Origin(name), c.columns[name])
	}
	return c.Origin(name)
}

// nearZone adds to the error of a time zone the name that was meant, where the system has a list of them.
func nearZone(said string) string {
	said = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(said), " ", "_"))
	zones := map[string]string{}
	files, _ := filepath.Glob("/usr/share/zoneinfo/[A-Z]*/[A-Z]*")
	for _, file := range files {
		if !IsFile(file) {
			continue
		}
		region, city := path.Base(path.Dir(file)), path.Base(file)
		zones[strings.ToLower(region+"/"+city)] = region + "/" + city
		zones[strings.ToLower(city)] = region + "/" + city
	}
	within := min(2, max(0, len(said)-4)) // CEST is not EST
	if near := spelling.Nearest(said, slices.Sorted(maps.Keys(zones)), within); near != "" {
		return fmt.Sprintf("; did you mean %q?", zones[near])
	}
	return ""
}

// Misspelt returns the variables of an environment that no setting has, each with the one that it is a letter or two
// away from.
func Misspelt(environ []string) map[string]string {
	known := []string{"GPUBOARD_CONFIG"}
	for _, k := range Keys() {
		known = append(known, k.Env())
	}
	misspelt := map[string]string{}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "GPU") || slices.Contains(known, name) {
			continue
		}
		within := max(1, min(2, (len(name)-len("GPUBOARD_"))/3))
		if near := spelling.Nearest(name, known, within); near != "" {
			misspelt[name] = near
		}
	}
	return misspelt
}
