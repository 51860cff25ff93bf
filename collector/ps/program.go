package ps

import (
	"path"
	"strings"

	"gpuboard/snapshot"
)

// Program names what a process runs, from the arguments as ps prints them:
// the base name of argv[0], or of the script that an interpreter runs. It
// never returns an argument: where it is not certain which word is the script
// (a flag that it does not know, a line that was cut), it returns the
// interpreter.
func Program(args string, cut bool) string {
	return snapshot.Text(program(args, cut), snapshot.MaxProgramBytes)
}

func program(args string, cut bool) string {
	if args == "" || args[0] == ' ' {
		return "" // argv[0] is empty: the first word is an argument
	}
	if args[0] == '[' { // a kernel thread, or a zombie: [name] <defunct>
		if end := strings.LastIndexByte(args, ']'); end > 0 {
			name, _, _ := strings.Cut(args[1:end], " ")
			return safe(name)
		}
		return ""
	}
	first, rest, _ := strings.Cut(args, " ")
	name := safe(base(first))
	how, ok := interpreter(name)
	if !ok || rest == "" {
		return name
	}
	words := strings.Split(rest, " ")
	if cut { // the last word may be half of one
		words = words[:len(words)-1]
	}
	if script := how.script(words); script != "" {
		return script
	}
	return name
}

// base is the last element of a path; of "-bash", a login shell, it is bash.
func base(word string) string {
	if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") {
		word = word[1:]
	}
	return strings.TrimSuffix(word[strings.LastIndexByte(word, '/')+1:], ":")
}

// safe refuses what looks like a setting in place of a name: a process may
// write anything into its argv[0].
func safe(name string) string {
	if strings.HasPrefix(name, "-") || strings.ContainsAny(name, "=@?&") {
		return ""
	}
	return name
}

// A language says how an interpreter's command line leads to the script.
type language struct {
	alone    string // letters of flags that stand for themselves, also joined: -uB
	with     string // letters of flags that have a value, joined to it or the next word
	words    string // long flags without a value, between blanks
	values   string // long flags with a value as the next word, between blanks
	prefixes string // beginnings of flags that hold their value, between blanks
	code     string // flags after which code follows, between blanks
	module   string // the flag that names a module
	jar      bool   // java: -jar FILE, and a class is a dotted name
	file     string // a flag that holds the script: --file=
}

func interpreter(name string) (language, bool) {
	switch lower := strings.ToLower(name); {
	case versioned(lower, "python"), versioned(lower, "pypy"), lower == "ipython", lower == "ipython3":
		return language{alone: "bBdEhiIOPqRsSuvVx", with: "WX", code: " -c ", module: "-m",
			prefixes: " --check-hash-based-pycs= "}, true
	case lower == "bash", lower == "sh", lower == "dash", lower == "zsh", lower == "ksh", lower == "ash":
		return language{alone: "abefhiklmnprtuvxBCEHPTD", with: "oO", code: " -c ",
			words: " --login --norc --noprofile --posix --restricted --verbose "}, true
	case versioned(lower, "perl"):
		return language{alone: "acfglnpsStTuUvwWX", with: "I", code: " -e -E "}, true
	case versioned(lower, "ruby"):
		return language{alone: "alnpsSvwW", with: "IrCE", code: " -e "}, true
	case lower == "node", lower == "nodejs":
		return language{with: "r", code: " -e -p -pe --eval --print ", values: " --require --import ",
			prefixes: " --max-old-space-size= --max_old_space_size= ", words: " --expose-gc --no-warnings --enable-source-maps --trace-warnings "}, true
	case lower == "rscript":
		return language{code: " -e ", words: " --vanilla --verbose --no-save --no-restore --no-environ --no-init-file --no-site-file --slave --quiet "}, true
	case lower == "r":
		return language{file: "--file=", code: " -e ", words: " --no-echo --no-restore --no-save --slave --vanilla --quiet --interactive ", values: " -f "}, true
	case versioned(lower, "julia"):
		return language{alone: "iq", with: "tpLJCHO", code: " -e -E --eval --print ",
			prefixes: " --project= --threads= --procs= --optimize= --startup-file= --check-bounds= --sysimage= --color= --history-file= --heap-size-hint= ",
			words:    " --project --quiet --banner=no "}, true
	case lower == "java":
		return language{jar: true, values: " -cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports --add-reads ",
			prefixes: " -X -D -verbose -ea -da -server -client -javaagent: -agentlib: -agentpath: --enable- --add-opens= --add-exports= --add-modules= --class-path= ",
			words:    " -server -client "}, true
	}
	return language{}, false
}

// versioned matches python, python3, python3.11, python3.11d, pypy3.
func versioned(name, stem string) bool {
	rest, ok := strings.CutPrefix(name, stem)
	return ok && strings.Trim(rest, "0123456789.-dmu") == ""
}

// script walks the flags up to the script, and returns "" where it loses its way.
func (l language) script(words []string) string {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "" || word == "-": // standard input, or an empty argument
			return ""
		case !strings.HasPrefix(word, "-"):
			return l.name(word)
		case word == "--":
			if i+1 < len(words) {
				return l.name(words[i+1])
			}
			return ""
		case l.file != "" && strings.HasPrefix(word, l.file):
			return l.name(word[len(l.file):])
		case l.jar && word == "-jar":
			if i+1 < len(words) {
				return safe(base(words[i+1]))
			}
			return ""
		case l.module != "" && strings.HasPrefix(word, l.module) && len(word) == len(l.module):
			if i+1 < len(words) {
				return moduleName(words[i+1])
			}
			return ""
		case listed(l.code, word):
			return ""
		case listed(l.words, word), l.prefixed(word):
		case listed(l.values, word):
			i++
		default:
			skip, ok := l.letters(word)
			if !ok {
				return ""
			}
			i += skip
		}
	}
	return ""
}

func listed(list, word string) bool { return strings.Contains(list, " "+word+" ") }

func (l language) prefixed(word string) bool {
	for prefix := range strings.FieldsSeq(l.prefixes) {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// letters walks joined one-letter flags. skip is 1 when the next word is the
// value of the last one; ok is false when a letter is not known, or means code.
func (l language) letters(word string) (skip int, ok bool) {
	if len(word) < 2 || word[1] == '-' {
		return 0, false
	}
	for k := 1; k < len(word); k++ {
		letter := word[k : k+1]
		switch {
		case strings.Contains(l.with, letter):
			if k == len(word)-1 {
				return 1, true
			}
			return 0, true
		case !strings.Contains(l.alone, letter):
			return 0, false
		}
	}
	return 0, true
}

// name is the base name of a script, or the class that java runs.
func (l language) name(word string) string {
	if l.jar {
		return safe(word[strings.LastIndexByte(word, '/')+1:])
	}
	script := safe(path.Base(word))
	if script == "." || script == "/" || script == ".." {
		return ""
	}
	if script == "ipykernel_launcher.py" {
		return "jupyter"
	}
	return script
}

// moduleName names a module that an interpreter runs by -m.
func moduleName(word string) string {
	switch {
	case word == "ipykernel_launcher" || word == "ipykernel" || strings.HasPrefix(word, "jupyter"):
		return "jupyter"
	case strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "":
		return ""
	}
	return safe(word)
}
