package publisher

import (
	"os"
	"path/filepath"
	"testing"
)

func localOptions(t testing.TB) (Options, string) {
	data := t.TempDir()
	return Options{Target: Target{Scheme: "file", Dir: data}, Host: "gpu01"}, filepath.Join(data, "drop", "gpu01")
}

func TestLocalRefusals(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, o *Options){
		"missing data directory": func(t *testing.T, o *Options) { o.Target.Dir = filepath.Join(o.Target.Dir, "absent") },
		"data directory is a file": func(t *testing.T, o *Options) {
			o.Target.Dir = filepath.Join(o.Target.Dir, "file")
			if err := os.WriteFile(o.Target.Dir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"host directory is a link": func(t *testing.T, o *Options) {
			drop := filepath.Join(o.Target.Dir, "drop")
			if err := os.Mkdir(drop, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(t.TempDir(), filepath.Join(drop, o.Host)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := localOptions(t)
			spoil(t, &o)
			if e := refused(t, open(t, o), newMemorySpool(LatestName), CodeLocalDir); e.Temporary() {
				t.Error("counts as temporary")
			}
		})
	}
	for _, host := range []string{"", "..", "a/b", "../x", ".x", "GPU01", "a..b", "-x"} {
		o, _ := localOptions(t)
		o.Host = host
		if _, err := New(o); Code(err) != CodeTarget {
			t.Errorf("host %q: got %v", host, err)
		}
	}
}
