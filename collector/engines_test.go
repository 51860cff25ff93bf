package collector

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	answers "gpuboard/collector/containers"
)

const trained = `["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","train","mira","","","","",""]`

// engine puts a shell script into the place of an engine.
func engine(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestEnginesThatAnswer(t *testing.T) {
	want := answers.Container{Name: "train", User: "mira"}
	for name, script := range map[string]string{
		// Each refuses flags that it does not have.
		"docker": `[ "$1 $2 $3" = "ps --no-trunc --format" ] && [ $# = 4 ] && echo '` + trained + `'`,
		"podman": `echo 'a warning' >&2; [ "$LC_ALL $DOCKER_HOST" = "C unix:///elsewhere" ] && echo '` + trained + `'`,
		"nerdctl": `case "$*" in "--namespace=k8s.io ps "*) echo '` + trained +
			`';; "--namespace=default ps "*) ;; *) exit 1;; esac`,
	} {
		t.Setenv("DOCKER_HOST", "unix:///elsewhere")
		engine(t, name, script)
		list, err := AskEngine(t.Context(), name, slack)
		if err != nil || len(list) != 1 || list["aaaaaaaaaaaa"] != want {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func TestEnginesThatDoNotAnswer(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"docker", "echo '" + trained + "'; echo 'no daemon' >&2; exit 1", "docker ended with status 1: no daemon"},
		{"docker", "kill -9 $$", "docker ended with status -9: "},
		{"podman", "echo hello", "reading the answer of podman: it does not say what it was asked: hello"},
		{"podman", "head -c 1000000000 /dev/zero", "podman wrote more than 1048576 bytes"},
		{"podman", "head -c 1000000000 /dev/zero >&2; exit 2", `podman ended with status 2: \x00`},
		{"nerdctl", "exit 4", "nerdctl ended with status 4: "},
		{"nerdctl", `[ "$1" = --namespace=default ] && exit; exit 5`, "nerdctl ended with status 5: "},
	} {
		engine(t, test.name, test.script)
		list, err := AskEngine(t.Context(), test.name, slack)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || len(list) > 0 || len(err.Error()) > 1000 {
			t.Errorf("%s: %s: %v, %v", test.name, test.script, list, err)
		}
	}
}

// TestAnEngineThatHangsIsEnded: in whichever of its runs, and with whatever it has started.
func TestAnEngineThatHangsIsEnded(t *testing.T) {
	for name, script := range map[string]string{
		"docker":  "echo '" + trained + "'; sleep 1000 & exec sleep 1000",
		"nerdctl": `[ "$1" = --namespace=default ] && exit; exec sleep 1000`,
	} {
		engine(t, name, script)
		list, err := AskEngine(t.Context(), name, 2*time.Second)
		if err == nil || err.Error() != name+" did not answer within 2s and was ended" || len(list) > 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func TestAnEngineThatIsNotInstalled(t *testing.T) {
	if _, err := AskEngine(t.Context(), "no-such-engine", slack); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("the error is %v", err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "no-such-engine"), []byte("#!/bin/sh\n"), 0o755),
		os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, err := AskEngine(t.Context(), "no-such-engine", slack); err == nil || errors.Is(err, ErrNotInstalled) ||
		!strings.Contains(err.Error(), "others can replace it") {
		t.Errorf("one that others can replace: %v", err)
	}
}
