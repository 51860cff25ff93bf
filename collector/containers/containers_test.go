package containers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
)

const whole = `{"at": "2026-11-28T09:00:00Z", "containers": {
	"0123456789ab": {"name": "train", "user": "mira", "folder": "/home/mira/train", "pod": "ml/train-0"},
	"cafecafecafe": {}}}`

func written(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "containers.json")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// me owns the files of the test, as root owns the true one.
func me() uint32 { return uint32(os.Geteuid()) }

func TestReadsWhatRootWrote(t *testing.T) {
	file, err := readOf(written(t, whole, 0o644), me())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Container{
		"0123456789ab": {Name: "train", User: "mira", Folder: "/home/mira/train", Pod: "ml/train-0"},
		"cafecafecafe": {},
	}
	if diff := cmp.Diff(want, file.Containers); diff != "" {
		t.Error(diff)
	}
	if file.At.Hour() != 9 {
		t.Errorf("the answers are of %v", file.At)
	}
	if os.Geteuid() == 0 {
		file, err := Read(written(t, whole, 0o644))
		if err != nil || len(file.Containers) != 2 || file.Containers["0123456789ab"].User != "mira" {
			t.Errorf("Read returns %v, %v", file, err)
		}
	}
}

func TestFilesThatOthersCouldHaveWrittenAreRefused(t *testing.T) {
	for name, path := range map[string]func() string{
		"another account's": func() string {
			path := written(t, whole, 0o644)
			if os.Geteuid() != 0 {
				return "/etc/passwd"
			}
			if err := os.Chown(path, 12345, 12345); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"its group can write":   func() string { return written(t, whole, 0o664) },
		"others can write":      func() string { return written(t, whole, 0o646) },
		"it is a directory":     func() string { return t.TempDir() },
		"it is a device":        func() string { return "/dev/zero" },
		"it has too many bytes": func() string { return written(t, whole+strings.Repeat(" ", MaxBytes), 0o644) },
		"it is half a file":     func() string { return written(t, whole[:len(whole)/2], 0o644) },
		"it is no JSON":         func() string { return written(t, "containers", 0o644) },
		"it is a symlink": func() string {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(written(t, whole, 0o644), link); err != nil {
				t.Fatal(err)
			}
			return link
		},
		"it is a FIFO": func() string {
			path := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			if file, err := readOf(path(), me()); err == nil {
				t.Errorf("it was read: %v", file)
			}
		})
	}
}

func TestTextsOfAFileAreBounded(t *testing.T) {
	text := fmt.Sprintf(`{"containers": {
		"0123456789ab": {"name": "a\u202eb", "user": "mi\u200bra", "folder": "/home/\u0007", "pod": "%[1]s"},
		"0123456789ac": {"name": "%[1]s", "user": "%[1]s", "folder": "/home/%[1]s"},
		"0123456789ad": {"name": "x</script>", "user": "evil;sh", "folder": "/x", "pod": "a/b/c; rm"},
		"0123456789AB": {}, "../../../etc": {}, "0123456789abcdef": {}, "": {}}}`, strings.Repeat("x", 600))
	file, err := readOf(written(t, text, 0o644), me())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Container{"0123456789ab": {}, "0123456789ac": {}, "0123456789ad": {Folder: "/x"}}
	if diff := cmp.Diff(want, file.Containers); diff != "" {
		t.Error(diff)
	}
}

// line is what an engine writes of a container, with these texts behind its id.
func line(id string, texts ...string) string {
	for len(texts) < 7 {
		texts = append(texts, "")
	}
	data, _ := json.Marshal(append([]string{id}, texts...))
	return string(data) + "\n"
}

func TestAnswers(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for name, test := range map[string]struct {
		answer string
		want   map[string]Container // nil for an error
	}{
		"none":         {"", map[string]Container{}},
		"a blank line": {"\n", map[string]Container{}},
		"a label of the site": {line(id, "train", "mira", "hub"),
			map[string]Container{id[:12]: {Name: "train", User: "mira"}}},
		"a label of JupyterHub": {line(id, "lab", "", "anna"),
			map[string]Container{id[:12]: {Name: "lab", User: "anna"}}},
		"compose": {line(id, "web", "", "", "/home/mira/web"),
			map[string]Container{id[:12]: {Name: "web", Folder: "/home/mira/web"}}},
		"a devcontainer": {line(id, "dev", "", "", "", "/home/anna/dev"),
			map[string]Container{id[:12]: {Name: "dev", Folder: "/home/anna/dev"}}},
		"a pod": {line(id, "k8s_main", "", "", "", "", "ml", "eval-0"),
			map[string]Container{id[:12]: {Name: "k8s_main", Pod: "ml/eval-0"}}},
		"half a pod": {line(id, "main", "", "", "", "", "", "eval-0"),
			map[string]Container{id[:12]: {Name: "main"}}},
		"names of links":         {line(id, "web/db,db,app/db"), map[string]Container{id[:12]: {Name: "db"}}},
		"one name of Kubernetes": {line(id, "k8s://ml/eval-0/main"), map[string]Container{id[:12]: {}}},
		"hostile texts": {line(id, "a\x1b[31m\u202e", "mi\u200bra", "", "/home/a\nb"),
			map[string]Container{id[:12]: {}}},
		"a text that is too long": {line(id, "n", strings.Repeat("x", 129), "", "/"+strings.Repeat("x", 512)),
			map[string]Container{id[:12]: {Name: "n"}}},
		"an id of ctr": {line("redis", "redis", "mira"), map[string]Container{}},
		"an id that climbs": {line("../../etc/passwd", "x", "mira") + line(id),
			map[string]Container{id[:12]: {}}},
		"an id in capitals":        {line(strings.ToUpper(id), "x", "mira"), map[string]Container{}},
		"an id that was shortened": {line(id[:12], "x", "mira"), map[string]Container{}},
		"no JSON":                  {"CONTAINER ID   IMAGE\n", nil},
		"half JSON":                {line(id) + line(id)[:40], nil},
		"other JSON":               {`{"ID": "` + id + `"}`, nil},
		"too few texts":            {`["` + id + `"]`, nil},
		"no texts":                 {strings.Replace(line(id), `""`, "{}", 1), nil},
		"a warning in between":     {line(id) + "WARN[0000] deprecated\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			known := map[string]Container{}
			err := Parse([]byte(test.answer), known)
			if (err != nil) != (test.want == nil) {
				t.Fatalf("the error is %v", err)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if err == nil && !maps.Equal(known, test.want) {
				t.Errorf("it is %v, want %v", known, test.want)
			}
		})
	}
}

// labelled is a container of an engine as its template sees it: docker and nerdctl have the labels as one text.
type labelled struct{ ID, Names, Labels, wanted string }

func (l labelled) Label(name string) string {
	if name == "gpuboard.user" {
		return l.wanted
	}
	return ""
}

// mapped is one of podman.
type mapped struct {
	ID, Names string
	Labels    map[string]string
}

// TestTheTemplateAsksForLabelsByName: a comma in a label makes no other label, whether the engine has a text of all
// labels or a map.
func TestTheTemplateAsksForLabelsByName(t *testing.T) {
	asJSON := template.FuncMap{"json": func(v any) string {
		data, _ := json.Marshal(v)
		return string(data)
	}}
	args := Args()
	format, err := template.New("").Funcs(asJSON).Parse(args[len(args)-1])
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("a", 64)
	for _, of := range []any{
		labelled{id, "train", "x=a,gpuboard.user=eve,gpuboard.user=mira", "mira"},
		mapped{id, "train", map[string]string{"x": "a,gpuboard.user=eve", "gpuboard.user": "mira"}},
	} {
		var out bytes.Buffer
		if err := format.Execute(&out, of); err != nil {
			t.Fatal(err)
		}
		known := map[string]Container{}
		err := Parse(out.Bytes(), known)
		if want := (Container{Name: "train", User: "mira"}); err != nil || len(known) != 1 || known[id[:12]] != want {
			t.Errorf("%T: %v, %v", of, known, err)
		}
	}
	var out bytes.Buffer
	if err := format.Execute(&out, mapped{ID: id}); err != nil || out.String() != strings.TrimSpace(line(id)) {
		t.Errorf("without labels: %s, %v", &out, err)
	}
}
