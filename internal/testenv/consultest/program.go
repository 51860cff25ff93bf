package consultest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/testenv/need"
)

var pinned = regexp.MustCompile(`(?m)^\s*github\.com/hashicorp/consul v([0-9.]+)`)

// Program returns the path of a Consul to run: GPUBOARD_CONSUL when that is
// set, else the one that tools/consul/build.sh has built. Without either the
// test skips; with GPUBOARD_REQUIRE_ALL=1 it builds one, which takes minutes
// once, and fails when that fails.
func Program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("GPUBOARD_CONSUL"); path != "" {
		return path
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := cached(root); err == nil {
		return path
	}
	if !need.All() {
		t.Skip("needs a Consul: set GPUBOARD_CONSUL to one, or run tools/consul/build.sh once")
	}
	cmd := exec.Command(filepath.Join(root, "tools", "consul", "build.sh"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("building Consul: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// cached returns the program that build.sh left, if it is there.
func cached(root string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "tools", "consul", "go.mod"))
	if err != nil {
		return "", err
	}
	version := pinned.FindSubmatch(mod)
	if version == nil {
		return "", fmt.Errorf("reading tools/consul/go.mod: no version of Consul in it")
	}
	dir := os.Getenv("GPUBOARD_CACHE")
	if dir == "" {
		dir = filepath.Join(root, ".cache")
	}
	path := filepath.Join(dir, "consul-"+string(version[1]))
	_, err = os.Stat(path)
	return path, err
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("looking for go.mod: none above the test")
		}
		dir = parent
	}
}
