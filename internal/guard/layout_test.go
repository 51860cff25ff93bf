package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The plan of the house: which room may import which of ours. It is read with
// go/parser and not asked of "go list", because a test sees files that it opens
// as its inputs and is run again when one of them changes.
var rooms = map[string][]string{
	".":                   {"internal/cli"},
	"internal/cli":        {"*"},
	"internal/snapshot":   {},
	"internal/atomicfile": {"internal/shell"},
	"collector": {"collector/amdsmi", "collector/containers", "collector/hostinfo", "collector/kernellog",
		"collector/nvidiasmi", "collector/ps", "internal/atomicfile", "internal/snapshot"},
	"collector/containers": {"internal/shell", "internal/snapshot"},
	"collector/amdsmi":     {"collector/ps", "internal/snapshot"},
	"collector/nvidiasmi":  {"collector/ps", "internal/snapshot"},
	"collector/ps":         {"internal/snapshot"},
	"collector/hostinfo":   {"internal/atomicfile", "internal/snapshot"},
	"collector/kernellog":  {"internal/snapshot"},
	"internal/shell":       {},
	"internal/failure":     {"internal/atomicfile", "internal/snapshot", "internal/spool", "publisher"},
	"internal/spelling":    {},
	"internal/doctor": {"collector/containers", "collector/hostinfo", "internal/atomicfile", "internal/board", "internal/booking",
		"internal/config", "internal/failure", "internal/inventory", "internal/legacy", "internal/node",
		"internal/notify", "internal/pull", "internal/shell", "internal/snapshot", "internal/spool", "internal/watch",
		"publisher", "sitegen", "sitegen/page", "sitegen/render"},
	"internal/setup": {"collector/containers", "deploy", "internal/atomicfile", "internal/config",
		"internal/failure", "internal/inventory", "internal/legacy", "internal/shell", "internal/snapshot",
		"publisher"},
	"internal/config": {"internal/atomicfile", "internal/board", "internal/booking", "internal/events",
		"internal/failure", "internal/inventory", "internal/notify", "internal/snapshot", "internal/spelling",
		"internal/sshclient"},
	"internal/spool":       {"internal/atomicfile", "internal/snapshot"},
	"internal/objectstore": {"internal/snapshot"},
	"internal/sshclient":   {"internal/atomicfile", "internal/shell", "internal/snapshot"},
	"publisher": {"internal/atomicfile", "internal/objectstore", "internal/shell", "internal/snapshot",
		"internal/spool", "internal/sshclient"},
	"publisher/site":     {"internal/atomicfile", "internal/objectstore", "publisher", "sitegen/render"},
	"publisher/dropbox":  {"internal/atomicfile", "internal/snapshot", "internal/spool"},
	"internal/inventory": {"internal/atomicfile", "internal/snapshot"},
	"internal/booking":   {"internal/atomicfile", "internal/shell", "internal/snapshot", "internal/spelling"},
	"internal/history":   {"internal/snapshot"},
	"internal/legacy":    {"internal/snapshot"},
	"internal/board":     {"internal/booking", "internal/history", "internal/inventory", "internal/snapshot"},
	"internal/events":    {"internal/board", "internal/shell", "internal/snapshot"},
	"internal/notify":    {"internal/atomicfile", "internal/events", "internal/snapshot"},
	"sitegen": {"internal/atomicfile", "internal/board", "internal/booking", "internal/events",
		"internal/history", "internal/inventory", "internal/legacy", "internal/snapshot", "internal/spool",
		"sitegen/data", "sitegen/page", "sitegen/render", "sitegen/text", "templates"},
	"sitegen/page": {"docs", "internal/board", "internal/booking", "internal/snapshot", "sitegen/render",
		"templates"},
	"sitegen/data":   {"internal/board", "internal/events", "internal/snapshot", "sitegen/render"},
	"sitegen/text":   {"internal/board", "internal/snapshot", "sitegen/render"},
	"sitegen/render": {"internal/board", "internal/events", "internal/history", "internal/snapshot", "templates"},
	"internal/serve": {"internal/atomicfile", "internal/board", "internal/booking", "sitegen/data", "sitegen/page",
		"sitegen/render"},
	"internal/pull": {"collector", "collector/amdsmi", "collector/hostinfo", "collector/nvidiasmi", "collector/ps", "internal/atomicfile",
		"internal/snapshot", "internal/spool", "internal/sshclient", "publisher"},
	"internal/node": {"collector", "internal/atomicfile", "internal/board", "internal/config", "internal/failure",
		"internal/inventory", "internal/shell", "internal/snapshot", "internal/spool", "publisher"},
	"internal/watch": {"internal/atomicfile", "internal/board", "internal/config", "internal/events",
		"internal/failure", "internal/history", "internal/inventory", "internal/notify", "internal/objectstore",
		"internal/pull", "internal/shell", "internal/snapshot", "internal/source", "internal/spool", "publisher",
		"publisher/site", "sitegen", "sitegen/data", "sitegen/render"},
	"internal/source": {"internal/atomicfile", "internal/board", "internal/booking", "internal/config",
		"internal/failure", "internal/inventory", "internal/node", "internal/objectstore", "internal/shell",
		"internal/snapshot", "internal/spelling", "sitegen", "sitegen/data", "sitegen/render"},
	"internal/mcp": {"internal/board", "internal/booking", "internal/failure", "internal/snapshot", "internal/source",
		"sitegen/data", "sitegen/text"},
	"internal/demo": {"collector", "collector/hostinfo", "internal/inventory", "internal/snapshot"},
	"templates":     {},
	"docs":          {},
	"deploy":        {},
}

// doors are packages of the outside world, and the only rooms that may import
// them. Every package that is not of the standard library has a line here.
var doors = map[string][]string{
	"crypto/tls":   {"internal/notify"},
	"database/sql": {"internal/history"},
	"net/http": {"internal/cli", "internal/doctor", "internal/inventory", "internal/notify",
		"internal/objectstore", "internal/serve", "internal/source"},
	"os/exec":                            {"collector", "internal/notify", "internal/node", "internal/cli"},
	"os/signal":                          {"internal/cli"},
	"github.com/a-h/templ":               {"sitegen/page", "templates"},
	"github.com/arran4/golang-ical":      {"sitegen/data"},
	"github.com/cenkalti/backoff/v5":     {"publisher"},
	"github.com/fsnotify/fsnotify":       {"internal/watch"},
	"github.com/go-json-experiment/json": {"internal/snapshot", "sitegen", "sitegen/data"},
	"github.com/goccy/go-yaml":           {"internal/config"},
	"github.com/hashicorp/consul/api":    {"internal/inventory"},
	"github.com/klauspost/compress":      {"internal/history", "internal/snapshot", "publisher", "sitegen"},
	"github.com/minio/minio-go/v7":       {"internal/objectstore"},
	"github.com/pkg/sftp":                {"publisher", "publisher/dropbox"},
	"github.com/skeema/knownhosts":       {"internal/sshclient"},
	"github.com/spf13/afero":             {"sitegen"},
	"github.com/spf13/cobra":             {"internal/cli"},
	"github.com/spf13/pflag":             {"internal/cli"},
	"github.com/rogpeppe/go-internal":    {"internal/cli", "internal/demo"},
	"github.com/tailscale/hujson":        {"internal/booking"},
	"github.com/tdewolff/minify/v2":      {"sitegen/page"},
	"github.com/wneessen/go-mail":        {"internal/notify"},
	"github.com/yuin/goldmark":           {"sitegen/page"},
	"golang.org/x/crypto/bcrypt":         {"internal/serve"},
	"golang.org/x/crypto/ssh":            {"internal/sshclient", "publisher/dropbox"},
	"golang.org/x/sync/errgroup": {"internal/doctor", "internal/notify", "internal/watch", "sitegen",
		"sitegen/render"},
	"golang.org/x/sys/unix": {"collector", "collector/hostinfo", "internal/atomicfile", "internal/booking",
		"internal/spool"},
	"golang.org/x/term":                  {"internal/cli"},
	"golang.org/x/text/encoding/charmap": {"internal/booking"},
	"golang.org/x/text/feature/plural":   {"sitegen/page"},
	"golang.org/x/text/language":         {"sitegen/page"},
	"golang.org/x/text/message":          {"sitegen/page"},
	"golang.org/x/text/number":           {"sitegen/page"},
	"golang.org/x/text/unicode/norm":     {"internal/booking", "sitegen/text"},
	"golang.org/x/text/width":            {"sitegen/render"},
	"modernc.org/sqlite":                 {"internal/history"},

	"github.com/modelcontextprotocol/go-sdk": {"internal/mcp"},
}

// markdownFile is the one file that makes HTML which is not escaped again.
const markdownFile = "sitegen/page/markdown.go"

// execFile is the one file of the command line that may start programs.
const execFile = "internal/cli/exec.go"

type source struct {
	path, room string
	test       bool
	text       string
	file       *ast.File
}

// harness is what carries tests, releases and measurements, and no part of the program.
var harness = []string{"bench", "deploy/package", "internal/e2e", "internal/guard", "internal/testenv"}

// product reports whether the file is part of the program.
func (s source) product() bool {
	return !s.test && !slices.ContainsFunc(harness, func(place string) bool {
		return s.room == place || strings.HasPrefix(s.room, place+"/")
	})
}

// parsed reads all sources once, for all tests.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." &&
				(strings.HasPrefix(name, ".") || name == "testdata" || path == "tools" || path == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		all = append(all,
			source{path: path, room: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
				text: string(text), file: f})
		return nil
	})
	return all, err
})

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// doorOf is the entry of doors that a package falls under, "" if there is none.
func doorOf(name string) string {
	for door := range doors {
		if name == door || strings.HasPrefix(name, door+"/") {
			return door
		}
	}
	return ""
}

func TestPackagesImportOnlyWhatIsAllowed(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if !s.product() {
			continue // tests and their harness may go anywhere
		}
		allowed, known := rooms[s.room]
		if !known {
			t.Errorf("%s: no such room in the plan; a new package needs a line here and in ARCHITECTURE.md", s.path)
			continue
		}
		for _, imp := range s.file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			if ours, ok := strings.CutPrefix(name, "gpuboard/"); ok {
				if !slices.Contains(allowed, "*") && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s, which the plan does not allow", s.path, ours)
				}
				continue
			}
			door := doorOf(name)
			if door == "" && strings.Contains(name, ".") {
				t.Errorf(
					"%s imports %s, which is not in the table of doors; a new dependency needs a line there and in ARCHITECTURE.md", s.path, name)
			}
			if door != "" && !slices.Contains(doors[door], s.room) {
				t.Errorf("%s imports %s, which only %s may", s.path, name, strings.Join(doors[door], ", "))
			}
			used[door+" "+s.room] = true
			if name == "os/exec" && s.room == "internal/cli" && s.path != execFile {
				t.Errorf("%s imports os/exec; the one file that may is %s", s.path, execFile)
			}
			if door == "github.com/yuin/goldmark" && s.path != markdownFile {
				t.Errorf("%s imports %s; the one file that may is %s", s.path, name, markdownFile)
			}
		}
	}
	for door, open := range doors {
		for _, room := range open {
			if !used[door+" "+room] {
				t.Errorf("%s does not import %s any more: take it out of the table of doors", room, door)
			}
		}
	}
}

func TestBoardAndEventsKnowOnlyTheStandardLibrary(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.room != "internal/board" && s.room != "internal/events" {
			continue
		}
		for _, imp := range s.file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			if strings.Contains(name, ".") {
				t.Errorf("%s imports %s; the pure rooms use the standard library alone", s.path, name)
			}
			switch name {
			case "os", "io/fs", "net", "net/http", "time/tzdata", "log", "log/slog":
				t.Errorf("%s imports %s; the pure rooms read nothing", s.path, name)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if _, ok := docs[s.room]; !ok {
			docs[s.room] = 0
		}
		if s.file.Doc != nil {
			docs[s.room]++
			want := "Package " + s.file.Name.Name + " "
			if s.file.Name.Name == "main" {
				want = "Command "
			}
			if !strings.HasPrefix(s.file.Doc.Text(), want) {
				t.Errorf("%s: its package comment does not begin with %q", s.path, want)
			}
		}
	}
	for room, n := range docs {
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", room, n)
		}
	}
}

func TestNoUtilityPackages(t *testing.T) {
	for _, s := range sources(t) {
		switch filepath.Base(s.room) {
		case "util", "utils", "common", "helper", "helpers", "types", "models", "misc", "pkg", "lib":
			t.Errorf("%s: a package is named for what it is, not for being useful", s.path)
		}
	}
}

// TestNoInitAndNoGlobalState refuses init functions, and what belongs to main alone.
func TestNoInitAndNoGlobalState(t *testing.T) {
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function; wiring is an explicit list in cli", s.path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := pkg.Name + "." + sel.Sel.Name; {
			case (name == "os.Exit" || name == "os.Args") && s.path != "main.go":
				t.Errorf("%s uses %s, which is main's alone", s.path, name)
			case name == "templ.Raw" && s.path != markdownFile:
				t.Errorf("%s uses %s; the one file that may is %s", s.path, name, markdownFile)
			case name == "time.Now" && s.room == "internal/board":
				t.Errorf("%s reads the clock", s.path)
			}
			return true
		})
	}
}

// TestFilesAndPackagesAreSmall bounds the lines of a file and the files of a package.
func TestFilesAndPackagesAreSmall(t *testing.T) {
	const mostLines, mostFiles = 500, 40
	files := map[string]int{}
	for _, s := range sources(t) {
		files[s.room]++
		if n := strings.Count(s.text, "\n"); n > mostLines && !ast.IsGenerated(s.file) {
			t.Errorf("%s has %d lines, and %d are the most: split it along its reasons", s.path, n, mostLines)
		}
	}
	for room, n := range files {
		if n > mostFiles {
			t.Errorf("%s has %d files, and %d are the most", room, n, mostFiles)
		}
	}
}

func TestGoModMinimumVersions(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "\ngo 1.26.8\n") {
		t.Error("go.mod: the floor is go 1.26.8, for the fixes of os.Root and html/template")
	}
	if strings.Contains(string(data), "\nreplace ") {
		t.Error("go.mod: no replace, so that a plain go install gives the same program")
	}
}
