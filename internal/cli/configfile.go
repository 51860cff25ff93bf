package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// maxConfigBytes bounds the configuration file.
const maxConfigBytes = 1 << 20

// readFile overlays the configuration file. Every complaint carries
// file:line:col, the line itself and, for a name that nobody knows, the nearest
// that somebody does.
func (c *config) readFile(path string, required bool) error {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return fail(exitUsage, fmt.Errorf("reading the configuration: %w", err), "")
	}
	if len(data) > maxConfigBytes {
		return usagef("", "%s: %d bytes are too many for a configuration", path, len(data))
	}
	c.path = path
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin with it
	r := configReader{config: c, path: path, lines: strings.Split(string(data), "\n")}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			return r.errorAt(syntax.GetToken(), "%s", syntax.GetMessage())
		}
		return fail(exitUsage, fmt.Errorf("%s:1:1: %s", path, snapshot.Text(err.Error(), maxComplaint)), "")
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if err := r.section("", doc.Body); err != nil {
			return err
		}
	}
	return nil
}

type configReader struct {
	*config
	path  string
	lines []string
}

// errorAt points at a place in the file, with the line and a caret below it.
func (r *configReader) errorAt(t *token.Token, format string, args ...any) error {
	line, col := t.Position.Line, t.Position.Column
	message := fmt.Sprintf("%s:%d:%d: %s", r.path, line, col, snapshot.Text(fmt.Sprintf(format, args...), maxComplaint))
	if line >= 1 && line <= len(r.lines) {
		shown, at := pointedAt(r.lines[line-1], col-1)
		message += fmt.Sprintf("\n    %s\n    %s^", shown, strings.Repeat(" ", at))
	}
	return fail(exitUsage, errors.New(message), "")
}

// What is shown of a configuration that is wrong: bytes of the complaint, and
// characters of the line.
const (
	maxComplaint = 500
	maxShown     = 100
)

// pointedAt is a line as it may be shown, and which of its characters to point
// at: what hides secrets and what shortens it move the place.
func pointedAt(line string, at int) (string, int) {
	letters := []rune(strings.TrimRight(line, "\r"))
	at = min(max(at, 0), len(letters))
	before, shown := []rune(withoutURLPaths(string(letters[:at]))), []rune(withoutURLPaths(string(letters)))
	at = min(len(before), len(shown))
	if first := at - maxShown/2; first > 0 && len(shown) > maxShown {
		shown, at = append([]rune("…"), shown[first:]...), at-first+1
	}
	if len(shown) > maxShown {
		shown = append(shown[:maxShown:maxShown], '…')
	}
	return string(shown), at
}

func (r *configReader) section(prefix string, node ast.Node) error {
	if _, empty := node.(*ast.NullNode); empty {
		return nil
	}
	values, ok := mapping(node)
	if !ok {
		return r.errorAt(node.GetToken(), "here should be lines of the form key: value")
	}
	seen := map[string]bool{}
	for _, v := range values {
		name := prefix + strings.ReplaceAll(v.Key.GetToken().Value, "-", "_")
		if seen[name] {
			return r.errorAt(v.Key.GetToken(), "%s is set twice", name)
		}
		seen[name] = true
		if err := r.entry(name, v); err != nil {
			return err
		}
	}
	return nil
}

func (r *configReader) entry(name string, v *ast.MappingValueNode) error {
	switch {
	case isSection(name):
		return r.section(name+".", v.Value)
	case name == "short_names":
		return r.names(v.Value)
	case name == "notify":
		return r.notifyList(v.Value)
	case name == "hosts" && v.Value.Type() == ast.SequenceType:
		return r.hostList(v.Value.(*ast.SequenceNode))
	}
	for _, k := range keys() {
		if k.name != name {
			continue
		}
		value, err := r.scalar(k, v.Value)
		if err != nil {
			return err
		}
		if err := k.check(value); err != nil {
			return r.errorAt(v.Value.GetToken(), "%s: %v", name, err)
		}
		r.values[name], r.origin[name] = value, fmt.Sprintf("%s:%d", r.path, v.Key.GetToken().Position.Line)
		return nil
	}
	known := []string{"consul", "short_names", "notify"}
	for _, k := range keys() {
		known = append(known, k.name)
	}
	return r.errorAt(v.Key.GetToken(), "there is no setting %q%s", name, didYouMean(name, known))
}

// isSection reports whether a setting is called NAME.something.
func isSection(name string) bool {
	return slices.ContainsFunc(keys(), func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// scalar reads a value as the text that a flag would carry.
func (r *configReader) scalar(k key, node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.SequenceNode:
		if k.kind != list {
			return "", r.errorAt(n.GetToken(), "%s takes one value, not a list", k.name)
		}
		var items []string
		for _, item := range n.Values {
			s, err := r.scalar(key{name: k.name}, item)
			if err != nil {
				return "", err
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), nil
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	default:
		return "", r.errorAt(node.GetToken(), "%s takes a plain value", k.name)
	}
}

func (r *configReader) names(node ast.Node) error {
	values, ok := mapping(node)
	if !ok {
		return r.errorAt(node.GetToken(), "short_names takes lines of the form NVIDIA's name: yours")
	}
	for _, v := range values {
		r.shortNames[v.Key.GetToken().Value] = v.Value.GetToken().Value
	}
	return nil
}

// hostList reads hosts: as names, or as entries with a name and more.
func (r *configReader) hostList(node *ast.SequenceNode) error {
	var names []string
	for _, item := range node.Values {
		var h inventory.Entry
		values, isMap := mapping(item)
		written, at := item.GetToken().Value, item.GetToken()
		if isMap {
			written = ""
			for _, v := range values {
				if v.Key.GetToken().Value == "name" {
					written, at = v.Value.GetToken().Value, v.Value.GetToken()
				}
				if err := r.hostField(&h, v); err != nil {
					return err
				}
			}
		}
		name, err := snapshot.ParseHost(written)
		if err != nil {
			return r.errorAt(at, "hosts: %v", err)
		}
		h.Name = name
		r.hosts = append(r.hosts, h)
		names = append(names, name)
	}
	r.values["hosts"], r.origin["hosts"] = strings.Join(names, ","), fmt.Sprintf("%s:%d", r.path, node.GetToken().Position.Line)
	return nil
}

func (r *configReader) hostField(h *inventory.Entry, v *ast.MappingValueNode) error {
	value := v.Value.GetToken().Value
	name := v.Key.GetToken().Value
	if _, plain := v.Value.(ast.ScalarNode); !plain {
		return r.errorAt(v.Value.GetToken(), "%s takes a plain value", name)
	}
	switch name {
	case "name":
	case "title":
		h.Title = value
	case "group":
		h.Group = value
	case "owner":
		h.Owner = value
	case "note":
		h.Note = value
	case "address":
		h.Address = value
	case "maintenance":
		h.Maintenance = value
	case "gpus":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > snapshot.MaxGPUs {
			return r.errorAt(v.Value.GetToken(), "gpus: %q is not a number of GPUs", value)
		}
		h.GPUs = n
	default:
		return r.errorAt(v.Key.GetToken(), "a host has no %q%s", name, didYouMean(name, []string{"name", "title", "group", "owner", "note", "address", "gpus", "maintenance"}))
	}
	return nil
}

func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// didYouMean is "; did you mean X?" for the nearest known name, or "".
func didYouMean(name string, known []string) string {
	best, least := "", len(name)/2+1
	for _, k := range known {
		if d := editDistance(name, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is how many letters to add, drop or change, or neighbours to
// exchange, to make b of a. What is far longer than any name is just far.
func editDistance(a, b string) int {
	if len(a) > 200 {
		return len(a)
	}
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := last[j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			row[j] = min(cost, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
