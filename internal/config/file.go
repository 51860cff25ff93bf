package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// MaxBytes bounds the configuration file.
const MaxBytes = 1 << 20

// The memory that the parser takes grows with the square of these, so they are bounded before it runs.
const (
	maxLevels = 16   // of nested lists and mappings
	maxLines  = 4096 // of one mapping
)

// file returns the path of the configuration file, "" for none, and whether it has to exist.
func (from Sources) file() (path string, required bool) {
	if path, given := from.Flag("config"); given {
		return path, true
	}
	if path := from.Getenv("GPUBOARD_CONFIG"); path != "" {
		return path, true
	}
	for _, path := range []string{"gpuboard.yml", "/etc/gpuboard/gpuboard.yml"} {
		if _, err := os.Stat(path); err == nil {
			return path, false
		}
	}
	return "", false
}

// readFile overlays the configuration file. Each error names FILE:LINE:COL and, for
// an unknown name, the nearest known one.
func (c *Config) readFile(path string, required bool) error {
	if path == "" {
		for _, path := range []string{"gpuboard.yaml", "/etc/gpuboard/gpuboard.yaml"} {
			if IsFile(path) {
				return failure.Usage(
					"mv "+path+" "+strings.TrimSuffix(path, "aml")+"ml",
					"%s is not read, because the configuration is called gpuboard.yml",
					path,
				)
			}
		}
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil && IsDir(path) {
		return failure.Usage(
			"--config "+filepath.Join(path, "gpuboard.yml"),
			"reading the configuration: %s is a directory",
			path,
		)
	}
	if errors.Is(err, fs.ErrPermission) {
		return failure.Usage(
			"ls -l "+strconv.Quote(path)+" shows who may read it; GPUBOARD_CONFIG names another file",
			"reading the configuration: %w",
			err,
		)
	}
	if err != nil {
		return failure.Usage(
			"gpuboard init web DIR, or gpuboard init node DIR, writes one; --config and GPUBOARD_CONFIG say where it is",
			"reading the configuration: %w",
			err,
		)
	}
	return c.parse(path, data)
}

// Check returns what is wrong with the content of a configuration file, or nil.
func Check(path string, data []byte) error {
	return empty(nil).parse(path, data)
}

func (c *Config) parse(path string, data []byte) error {
	if len(data) > MaxBytes {
		return errorf("%s: %d bytes are too many for a configuration", path, len(data))
	}
	c.Path = path
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark
	f := file{c, strings.Split(string(data), "\n")}
	tokens := lexer.Tokenize(string(data))
	if at, what := excess(tokens); at != nil {
		return f.errorAt(at, "%s", what)
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil {
			return f.errorIn(syntax.GetToken(), syntax.GetMessage())
		}
		return errorf("%s:1:1: %s", path, snapshot.Text(err.Error(), maxMessage))
	}
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if err := f.settings(doc.Body); err != nil {
			return err
		}
	}
	return nil
}

// excess returns the first token beyond a bound, and a message about it; nil for none. Nesting in brackets is counted
// by brackets, other nesting by the columns of dashes and keys.
func excess(tokens token.Tokens) (at *token.Token, what string) {
	type level struct{ column, lines int }
	var levels []level
	brackets := 0
	for _, t := range tokens {
		column := t.Position.Column
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.MappingValueType:
			if t.Prev != nil {
				column = t.Prev.Position.Column // of the key
			}
			fallthrough
		case token.SequenceEntryType, token.MappingKeyType:
			if brackets > 0 {
				if t.Type == token.SequenceEntryType { // an error there, but the parser reads it as a list
					brackets++
				}
				break
			}
			for len(levels) > 0 && levels[len(levels)-1].column > column {
				levels = levels[:len(levels)-1]
			}
			if len(levels) == 0 || levels[len(levels)-1].column < column {
				levels = append(levels, level{column: column})
			}
			if t.Type == token.MappingValueType {
				levels[len(levels)-1].lines++
			}
		}
		if brackets+len(levels) > maxLevels {
			return t, fmt.Sprintf("lists and mappings are nested more than %d deep here", maxLevels)
		}
		if len(levels) > 0 && levels[len(levels)-1].lines > maxLines {
			return t, fmt.Sprintf("here are more than %d lines of the form key: value", maxLines)
		}
	}
	return nil, ""
}

// A file is a configuration file that is being read.
type file struct {
	*Config
	lines []string
}

// maxMessage bounds what an error says, in bytes: it may repeat a part of the file.
const maxMessage = 500

// errorAt returns an error about a place in the file.
func (f *file) errorAt(t *token.Token, format string, args ...any) error {
	return errorf("%s:%d:%d: %s",
		f.Path, t.Position.Line, t.Position.Column, snapshot.Text(fmt.Sprintf(format, args...), maxMessage))
}

// errorIn returns an error of the parser, or of the form of a line, as somebody who writes the file understands it.
func (f *file) errorIn(t *token.Token, message string) error {
	line, column, message := mistake(f.lines, t.Position.Line, t.Position.Column, message)
	return errorf("%s:%d:%d: %s", f.Path, line, column, snapshot.Text(message, maxMessage))
}

// fewNames is how many names an error about another one lists.
const fewNames = 20

// fields are the lines that a mapping may have, with what reads each.
type fields map[string]func(*ast.MappingValueNode) error

// mapping reads the lines of a mapping, and returns where each was. noun says what
// an unknown name is not ("a hook has no"), and prefix is the section's.
func (f *file) mapping(node ast.Node, shape, noun, prefix string, known fields) (map[string]*token.Token, error) {
	if _, empty := node.(*ast.NullNode); empty {
		return nil, nil
	}
	lines, ok := node.(*ast.MappingNode)
	if !ok {
		return nil, f.errorIn(node.GetToken(), shape+" lines of the form key: value")
	}
	seen := map[string]*token.Token{}
	for _, line := range lines.Values {
		at := line.Key.GetToken()
		name := prefix + strings.ReplaceAll(at.Value, "-", "_")
		if seen[name] != nil {
			return nil, f.errorAt(at, "%s is set twice", name)
		}
		read := known[name]
		if read == nil && removed(name) {
			return nil, f.errorAt(at, "the setting %s is gone: delete this line", name)
		}
		if read == nil {
			names := slices.Sorted(maps.Keys(known))
			near := spelling.DidYouMean(name, names)
			if near == "" && len(names) <= fewNames {
				near = "; there are " + strings.Join(names, ", ")
			}
			return nil, f.errorAt(at, "%s %q%s", noun, name, near)
		}
		if err := read(line); err != nil {
			return nil, err
		}
		seen[name] = line.Value.GetToken()
	}
	return seen, nil
}

// removed reports whether an earlier version had this setting.
func removed(name string) bool { return name == "history.raw" || name == "history.five_minutes" }

// settings reads the whole file. A setting with a dot in its name stands in a section.
func (f *file) settings(node ast.Node) error {
	const shape, noun = "here should be", "there is no setting"
	top, sections := fields{}, map[string]fields{}
	for _, k := range Keys() {
		read := func(line *ast.MappingValueNode) error { return f.setting(k, line) }
		section, _, nested := strings.Cut(k.Name, ".")
		if !nested {
			top[k.Name] = read
			continue
		}
		if sections[section] == nil {
			sections[section] = fields{}
			top[section] = func(line *ast.MappingValueNode) error {
				_, err := f.mapping(line.Value, section+" takes, below it,", noun, section+".", sections[section])
				return err
			}
		}
		sections[section][k.Name] = read
	}
	names := top["hosts"]
	top["hosts"] = func(line *ast.MappingValueNode) error { return f.hostList(line, names) }
	pairs := top["pull"]
	top["pull"] = func(line *ast.MappingValueNode) error { return f.pullList(line, pairs) }
	top["notify"] = f.hookList
	top["short_names"] = f.shortNames
	_, err := f.mapping(node, shape, noun, "", top)
	return err
}

func (f *file) setting(k Key, line *ast.MappingValueNode) error {
	if _, several := line.Value.(*ast.SequenceNode); several && k.Kind != list {
		return f.errorAt(line.Value.GetToken(), "%s takes one value, not a list", k.Name)
	}
	if _, pairs := line.Value.(*ast.MappingNode); pairs && strings.Contains(k.Arg, "=") {
		return f.errorAt(line.Value.GetToken(), "%s takes %s, with = between them, and several in a list", k.Name,
			k.Arg)
	}
	values, err := f.texts(k.Name, line.Value)
	if err != nil {
		return err
	}
	value := strings.Join(values, ",")
	if err := k.check(value); err != nil {
		return f.errorAt(line.Value.GetToken(), "%s: %v", k.Name, err)
	}
	f.Set(k.Name, value, f.place(line.Key))
	f.columns[k.Name] = line.Value.GetToken().Position.Column
	return nil
}

// place names the origin of a setting, as doctor shows it.
func (f *file) place(node ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, node.GetToken().Position.Line)
}

// text reads a plain value as the text that a flag would carry.
func (f *file) text(name string, node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.LiteralNode:
		return strings.TrimRight(n.Value.Value, "\n"), nil
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", f.errorAt(node.GetToken(), "%s takes a plain value", name)
}

// texts reads a list of plain values, or one alone. It is never nil.
func (f *file) texts(name string, node ast.Node) ([]string, error) {
	all, nodes := []string{}, []ast.Node{node}
	switch n := node.(type) {
	case *ast.NullNode:
		return all, nil
	case *ast.SequenceNode:
		nodes = n.Values
	}
	for _, n := range nodes {
		s, err := f.text(name, n)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// intoText reads a plain value into a text, and intoTexts one or more into a list.
func (f *file) intoText(to *string) func(*ast.MappingValueNode) error {
	return func(line *ast.MappingValueNode) (err error) {
		*to, err = f.text(line.Key.GetToken().Value, line.Value)
		return err
	}
}

func (f *file) intoTexts(to *[]string) func(*ast.MappingValueNode) error {
	return func(line *ast.MappingValueNode) (err error) {
		*to, err = f.texts(line.Key.GetToken().Value, line.Value)
		return err
	}
}

// intoNumber reads a whole number between two bounds.
func (f *file) intoNumber(to *int, least, most int, what string) func(*ast.MappingValueNode) error {
	return func(line *ast.MappingValueNode) error {
		name := line.Key.GetToken().Value
		s, err := f.text(name, line.Value)
		if err != nil {
			return err
		}
		if *to, err = strconv.Atoi(s); err != nil || *to < least || *to > most {
			return f.errorAt(line.Value.GetToken(), "%s: %q is not a number of %s from %d to %d", name, s, what, least,
				most)
		}
		return nil
	}
}

// shortNames reads short_names: names of GPUs, and what the pages call them.
func (f *file) shortNames(line *ast.MappingValueNode) error {
	names, ok := line.Value.(*ast.MappingNode)
	if !ok {
		return f.errorAt(line.Value.GetToken(), "short_names takes lines of the form NVIDIA's name: yours")
	}
	for _, l := range names.Values {
		f.ShortNames[l.Key.GetToken().Value] = l.Value.GetToken().Value
	}
	return nil
}

// pullList reads pull: a list of host: and ssh:, or what a flag has.
func (f *file) pullList(line *ast.MappingValueNode, pairs func(*ast.MappingValueNode) error) error {
	list, several := line.Value.(*ast.SequenceNode)
	if !several {
		return pairs(line)
	}
	var all []string
	for _, item := range list.Values {
		var host, login string
		if _, plain := item.(ast.ScalarNode); plain {
			all = append(all, item.GetToken().Value)
			continue
		}
		known := fields{"host": f.intoText(&host), "ssh": f.intoText(&login)}
		if _, err := f.mapping(item, "a pulled node takes", "a pulled node has no", "", known); err != nil {
			return err
		}
		all = append(all, host+"="+login)
	}
	if _, err := pulledOf(all); err != nil {
		return f.errorAt(list.GetToken(), "pull: %v", err)
	}
	f.Set("pull", strings.Join(all, ","), f.place(line.Key))
	return nil
}

// hostList reads hosts: a list of names and of entries, or names as a flag has them.
func (f *file) hostList(line *ast.MappingValueNode, names func(*ast.MappingValueNode) error) error {
	const shape = "write a list, in which each host begins with a dash, or names with commas between them"
	list, several := line.Value.(*ast.SequenceNode)
	if _, pairs := line.Value.(*ast.MappingNode); pairs {
		return f.errorAt(line.Value.GetToken(), "hosts: %s", shape)
	}
	if !several {
		if err := names(line); err != nil {
			return err
		}
		for _, said := range f.List("hosts") {
			name, err := snapshot.ParseHost(said)
			if err != nil {
				return f.errorIn(line.Value.GetToken(), fmt.Sprintf("hosts: %v; %s", err, shape))
			}
			f.Hosts = append(f.Hosts, inventory.Entry{Name: name})
		}
		return nil
	}
	var all []string
	for _, item := range list.Values {
		var h inventory.Entry
		at := item.GetToken()
		if _, plain := item.(ast.ScalarNode); plain {
			h.Name = at.Value
		} else {
			seen, err := f.mapping(item, "a host takes", "a host has no", "", fields{
				"name": f.intoText(&h.Name), "title": f.intoText(&h.Title), "group": f.intoText(&h.Group),
				"owner": f.intoText(&h.Owner), "note": f.intoText(&h.Note), "address": f.intoText(&h.Address),
				"maintenance": f.intoText(&h.Maintenance), "gpus": f.intoNumber(&h.GPUs, 0, snapshot.MaxGPUs, "GPUs"),
			})
			if err != nil {
				return err
			}
			if seen["name"] != nil {
				at = seen["name"]
			}
		}
		name, err := snapshot.ParseHost(h.Name)
		if err != nil {
			return f.errorAt(at, "hosts: %v", err)
		}
		h.Name = name
		f.Hosts = append(f.Hosts, h)
		all = append(all, name)
	}
	f.Set("hosts", strings.Join(all, ","), f.place(list))
	return nil
}
