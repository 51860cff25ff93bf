package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by -ldflags "-X gpuboard/cli.release=1.2.3" when a release is
// built; else the version is what the Go toolchain recorded. It is written by
// the linker alone.
var release string

// version is one word: "1.2.3", or "devel-<commit>" for a build from a checkout.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if rev := buildSetting(info, "vcs.revision"); len(rev) >= 12 {
		return "devel-" + rev[:12]
	}
	return "devel"
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "print the version", GroupID: groupSetup, Args: cobra.NoArgs,
		Example: "  gpuboard version\n  gpuboard version --json",
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintln(a.stdout, "gpuboard", version())
				return err
			}
			v := map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				v["commit"], v["date"] = buildSetting(info, "vcs.revision"), buildSetting(info, "vcs.time")
			}
			return writeJSON(a.stdout, v)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print version, commit, date and Go version as JSON")
	return c
}

// writeJSON writes one indented document and a line end.
func writeJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
