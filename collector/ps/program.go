package ps

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuboard/internal/snapshot"
)

// MaxCommandLineBytes limits how much of /proc/PID/cmdline [Program] reads.
const MaxCommandLineBytes = 16 << 10

// Program returns what a process runs, from its /proc/PID/cmdline: the base name of
// argv[0], or of the script that an interpreter runs. It never returns another argument:
// if it is not certain which one is the script (an unknown option, a truncated list), it
// returns the interpreter.
func Program(cmdline []byte) string {
	argv := strings.Split(string(cmdline[:min(len(cmdline), MaxCommandLineBytes)]), "\x00")
	if len(cmdline) >= MaxCommandLineBytes {
		argv = argv[:len(argv)-1] // the last one may be half an argument
	}
	for len(argv) > 0 && argv[len(argv)-1] == "" { // the end; a process that writes its own title leaves more
		argv = argv[:len(argv)-1]
	}
	if len(argv) == 0 {
		return ""
	}
	name := title(argv[0])
	// An argv[0] with a blank is a title that the process has set; the rest is stale.
	if how, ok := interpreter(name); ok && wordEnd(argv[0]) == len(argv[0]) {
		if script := how.script(argv[1:]); script != "" {
			name = script
		}
	}
	return snapshot.Text(name, snapshot.MaxProgramBytes)
}

// title returns the name of a program from argv[0], which may be a whole command line
// that the process has set: "" if it is not certain.
func title(line string) string {
	if strings.HasPrefix(line, "[") { // a kernel thread, or a zombie: [name] <defunct>
		name := line[1:]
		name = name[:wordEnd(name)]
		if end := strings.IndexAny(name, `/\:]`); end >= 0 {
			name = name[:end]
		}
		return safe(name)
	}
	if len(line) > 2 && line[1] == ':' && line[2] == '\\' { // C:\dir\program.exe
		line = line[2:]
	}
	word := line[:wordEnd(line)]
	name := firstWord(line)
	// A blank may be part of a directory name, and then the word is not the program.
	if strings.ContainsAny(word, `/\`) && strings.ContainsAny(line[len(word):], `/\`) {
		if _, ok := interpreter(name); !ok {
			return ""
		}
	}
	return name
}

// firstWord returns the base name of the first word of a title, "" for a setting in place
// of a name, and for what is no file name.
func firstWord(title string) string {
	word := title[:wordEnd(title)]
	if strings.ContainsAny(word, "=?&<>") {
		return ""
	}
	return safe(base(word))
}

// BaseName returns the base name of the program in what a driver or its tool calls a process: the path of
// the program with some drivers and the whole command line with others. Only the first
// word is used, because arguments may be secret. A name that contains XML is refused.
func BaseName(s string) string {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "[") || strings.EqualFold(s, "N/A") || strings.EqualFold(s, "Insufficient Permissions") {
		return ""
	}
	if len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') {
		// Windows: a path with blanks ends in .exe; otherwise its end is not known.
		end := strings.Index(strings.ToLower(s), ".exe")
		if end < 0 {
			return ""
		}
		s = s[:end+len(".exe")]
		return snapshot.Text(s[strings.LastIndexAny(s, `\/`)+1:], snapshot.MaxProgramBytes)
	}
	return snapshot.Text(firstWord(s), snapshot.MaxProgramBytes)
}

// wordEnd returns the end of the first word of a title: white space, a character that is not seen, or
// a sign after which programs write what they work on. Two colons are part of a name: ray::train.
func wordEnd(line string) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case strings.HasPrefix(line[i:], "::"):
			size = 2
		case unicode.IsSpace(r), !unicode.IsGraphic(r), strings.ContainsRune(":(,;|#[{\"'`", r):
			return i
		}
		i += size
	}
	return len(line)
}

// base returns the last element of a path, and bash for the login shell "-bash".
func base(word string) string {
	if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") {
		word = word[1:]
	}
	return word[strings.LastIndexAny(word, `/\`)+1:]
}

// safe returns "" for what is no file name: a process can set argv[0] to anything.
func safe(name string) string {
	if name == "." || name == ".." || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "+") ||
		strings.ContainsAny(name, "=@?&") {
		return ""
	}
	return name
}

// A language describes the command line of an interpreter up to the script.
type language struct {
	alone    string // letters of options that stand for themselves, also joined: -uB
	with     string // letters of options that have a value, joined to it or the next argument
	apart    string // letters of options whose value is always the next argument
	words    string // long options without a value, between blanks
	values   string // long options with a value as the next argument, between blanks
	prefixes string // beginnings of options that hold their value, between blanks
	module   string // the option that names a module
	jar      string // the option that names the file that java runs
	file     string // the options that name the script, between blanks, where nothing else does
}

// interpreter returns the language of an interpreter. An option that is not listed ends
// the search for the script: one with code to run, or one that has a value in some
// versions only.
func interpreter(name string) (language, bool) {
	switch lower := strings.ToLower(name); {
	case versioned(lower, "python"), versioned(lower, "pypy"):
		return language{alone: "bBdEiIOPqRsSuvx", with: "WX", module: "-m", values: " --check-hash-based-pycs "}, true
	case lower == "ipython", lower == "ipython3":
		return language{alone: "i"}, true
	case lower == "bash", lower == "sh", lower == "dash", lower == "zsh", lower == "ksh", lower == "ash":
		return language{alone: "abefhiklmnprtuvxBCEHPTD", apart: "oO",
			words: " --login --norc --noprofile --posix --restricted --verbose "}, true
	case versioned(lower, "perl"):
		return language{alone: "acfglnpsStTuUvwWX", with: "I"}, true
	case versioned(lower, "ruby"):
		return language{alone: "alnpsSvwW", with: "IrCE"}, true
	case lower == "node", lower == "nodejs":
		return language{apart: "r", values: " --require --import ",
			prefixes: " --max-old-space-size= --max_old_space_size= ",
			words:    " --expose-gc --no-warnings --enable-source-maps --trace-warnings "}, true
	case lower == "rscript":
		return language{words: " --vanilla --verbose --no-save --no-restore --no-environ --no-init-file --no-site-file --slave --quiet "}, true
	case lower == "r":
		return language{file: " --file= -f ",
			words: " --no-echo --no-restore --no-save --slave --vanilla --quiet --interactive "}, true
	case versioned(lower, "julia"):
		return language{alone: "iq", with: "tpLJCH",
			prefixes: " --project= --threads= --procs= --optimize= --startup-file= --check-bounds= --sysimage= --color= --history-file= --heap-size-hint= ",
			words:    " -O0 -O1 -O2 -O3 --project --quiet --banner=no "}, true
	case lower == "java":
		return language{jar: "-jar",
			values:   " -cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports --add-reads --enable-native-access ",
			prefixes: " -X -D -verbose -ea: -da: -javaagent: -agentlib: -agentpath: --enable-native-access= --add-opens= --add-exports= --add-reads= --add-modules= --class-path= --module-path= ",
			words:    " -server -client -ea -da --enable-preview "}, true
	}
	return language{}, false
}

// versioned matches python, python3, python3.11, python3.11d, pypy3.
func versioned(name, stem string) bool {
	rest, ok := strings.CutPrefix(name, stem)
	return ok && strings.Trim(rest, "0123456789.-dmu") == ""
}

// script skips the options up to the script. It returns "" at an unknown option.
func (l language) script(argv []string) string {
	next := func(i int) string {
		if i+1 < len(argv) {
			return argv[i+1]
		}
		return ""
	}
	for i := 0; i < len(argv); i++ {
		option := argv[i]
		switch flag, value, joined := strings.Cut(option, "="); {
		case l.file != "" && joined && listed(l.file, flag+"="):
			return fileName(value)
		case l.file != "" && listed(l.file, option):
			return fileName(next(i))
		case l.file != "" && !strings.HasPrefix(option, "-"):
			return ""
		case option == "" || option == "-": // standard input, or an empty argument
			return ""
		case !strings.HasPrefix(option, "-"):
			return fileName(option)
		case option == "--", option == l.jar:
			return fileName(next(i))
		case option == l.module:
			return moduleName(next(i))
		case listed(l.words, option), l.prefixed(option):
		case listed(l.values, option):
			i++
		default:
			skip, ok := l.letters(option)
			if !ok {
				return ""
			}
			i += skip
		}
	}
	return ""
}

func listed(list, word string) bool { return strings.Contains(list, " "+word+" ") }

func (l language) prefixed(option string) bool {
	for prefix := range strings.FieldsSeq(l.prefixes) {
		if strings.HasPrefix(option, prefix) {
			return true
		}
	}
	return false
}

// letters parses joined one-letter options. skip is 1 if the next argument is the value
// of the last one; ok is false for an unknown letter.
func (l language) letters(option string) (skip int, ok bool) {
	if len(option) < 2 || option[1] == '-' {
		return 0, false
	}
	for k := 1; k < len(option); k++ {
		letter, last := option[k], k == len(option)-1
		switch {
		case last && strings.IndexByte(l.with+l.apart, letter) >= 0:
			return 1, true
		case strings.IndexByte(l.with, letter) >= 0:
			return 0, true
		case strings.IndexByte(l.alone, letter) < 0:
			return 0, false
		}
	}
	return 0, true
}

// fileName returns the base name of a script, or the class that java runs; "" for a URL,
// a pipe, or a file of arguments (@FILE).
func fileName(path string) string {
	if strings.HasPrefix(path, "@") || strings.Contains(path, "://") || strings.HasPrefix(path, "/dev/") ||
		strings.HasPrefix(path, "/proc/") {
		return ""
	}
	name := base(path)
	name = safe(name[:wordEnd(name)])
	if name == "ipykernel_launcher.py" {
		return "jupyter"
	}
	return name
}

// moduleName returns the name of a module that an interpreter runs with -m.
func moduleName(module string) string {
	switch {
	case strings.Trim(module, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "":
		return ""
	case module == "ipykernel_launcher" || module == "ipykernel" || strings.HasPrefix(module, "jupyter"):
		return "jupyter"
	}
	return safe(module)
}
