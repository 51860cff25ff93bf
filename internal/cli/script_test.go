package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuboard/internal/cli"
	"gpuboard/internal/testenv/fakeps"
	"gpuboard/internal/testenv/fakesmi"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuboard":   func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"nvidia-smi": fakesmi.Main,
		"fake-ps":    fakeps.Main, // not called ps, so that other scripts have the real one
	})
}

// TestScripts runs the program as a person would: one script per command, what
// goes wrong first.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	older, err := filepath.Abs("testdata/older")
	if err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Abs("testdata/node")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CAPTURES", captures)
			env.Setenv("NODE", node)
			env.Setenv("OLDER", older)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
	})
}

// TestNotifyPage: what the page about hooks tells people to write is understood,
// and it names every event and every key.
func TestNotifyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "chat.url"), []byte("https://chat.example.org/hooks/SECRET\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "gpuboard.yml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(example, "/etc/gpuboard/", dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Main([]string{"notify", "--config", config, "--state", dir}, nil, &stdout, &stderr)
	want := "chat (https://chat.example.org/…): 0 waiting\nadmins (admins@lab.example.org): 0 waiting\nlights (/usr/local/bin/lights): 0 waiting\n"
	if code != 0 || stdout.String() != want || stderr.Len() > 0 {
		t.Errorf("exit %d\n%s%s\nwant\n%s", code, stdout.String(), stderr.String(), want)
	}
}
