package booking

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLoad(t *testing.T) {
	zone := paris(t)
	good := `{"a": [{"name": "x"}, {"name": "y"}], "b": {"*": {"name": "z"}}}`
	all := "a/0 x -..-\na/1 y -..-\nb/* z -..-"
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, file string)
		want   string
		code   string // of the first problem; "" for none
		stands bool   // the last good content stands in for something
	}{
		{"good", func(t *testing.T, file string) {}, all, "", false},
		{"missing", func(t *testing.T, file string) { remove(t, file) }, "", "", false},
		{"no directory", func(t *testing.T, file string) {
			if err := os.Rename(filepath.Dir(file), filepath.Dir(file)+".away"); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"directory", func(t *testing.T, file string) {
			remove(t, file)
			if err := os.Mkdir(file, 0o755); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"FIFO", func(t *testing.T, file string) {
			remove(t, file)
			if err := unix.Mkfifo(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"empty", write(""), all, "booking:syntax", true},
		{"half saved", write(`{"a": [{"name": "new"}, {"na`), "a/0 new -..-\na/1 y -..-\nb/* z -..-", "booking:syntax", true},
		{"UTF-16", write("\xff\xfe{\x00"), all, "booking:encoding", true},
		{"one comma missing: all is understood", write(`{"a": [{"name": "new"} {"name": "y"}]}`), "a/0 new -..-\na/1 y -..-", "booking:syntax", false},
		{"a place that is damaged", write(`{"a": [{"name": @ }, {"name": "new"}]}`), "a/0 x -..-\na/1 new -..-", "booking:syntax", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state := t.TempDir()
			file := filepath.Join(t.TempDir(), "data", "comments.json")
			if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			write(good)(t, file)
			now := at(t, "2026-11-20 10:30")
			if _, err := Load(file, state, zone, Options{Now: now}); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, file)
			c, err := Load(file, state, zone, Options{Now: now.Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if got := briefs(c, zone); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if tc.code == "" && (len(c.Problems) > 0 || c.Broken) || tc.code != "" && (len(c.Problems) == 0 || c.Problems[0].Code != tc.code || !c.Broken) {
				t.Errorf("broken %v, problems:\n%s", c.Broken, problems(c.Problems))
			}
			if tc.stands != c.LastGood.Equal(now) || !tc.stands && !c.LastGood.IsZero() {
				t.Errorf("last good is of %v", c.LastGood)
			}
		})
	}
}

func write(content string) func(t *testing.T, file string) {
	return func(t *testing.T, file string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func TestLoadWithoutState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write(`{"a": [{"name": "x"}`)(t, file)
	c, err := Load(file, "", paris(t), Options{})
	if err != nil || !c.Broken || briefs(c, paris(t)) != "a/0 x -..-" || !c.LastGood.IsZero() {
		t.Errorf("%v %+v", err, c)
	}
}
