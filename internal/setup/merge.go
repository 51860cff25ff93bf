package setup

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
)

const configFile = "gpuboard.yml"

// mergeConfig brings what was asked for into an existing configuration, and returns
// the lines that it added. A setting that is there stays: where it contradicts a
// flag, that is an error; where it replaces a default of init, the files that init
// writes follow it.
func (in *installation) mergeConfig() (added []string, err error) {
	path := in.path(configFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // to be made, or somebody's link, which is left alone
	}
	there, err := config.LoadFile(path, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	if in.From != "" {
		return nil, failure.Usage("move it away, or fill another directory and copy its hosts:",
			"%s is there already, and --from does not change it", path)
	}
	asked := maps.Clone(in.asked)
	if in.To != "" && !there.Given("to") { // nothing was pushed, so no other key is in use
		for _, name := range []string{"identity", "known_hosts"} {
			if !there.Given(name) {
				asked[name] = in.settings[name]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.settings)) {
		switch value := there.String(name); {
		case name == "spool":
			in.settings[name] = value
		case !there.Given(name):
		case asked[name] == "" || value == asked[name]:
			in.settings[name] = value
			delete(asked, name)
		default:
			return nil, failure.Usage("change that line, or give another directory", "%s: %s is %s, and not %s",
				there.Origin(name), name, value, asked[name])
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	merged := string(text)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		line := name + ": " + config.Quote(asked[name])
		added = append(added, line)
		// A line that is commented out gives its place.
		commented := regexp.MustCompile(`(?m)^#` + name + `:.*$`)
		if at := commented.FindStringIndex(merged); at != nil {
			merged = merged[:at[0]] + line + merged[at[1]:]
			continue
		}
		merged = strings.TrimRight(merged, "\n") + "\n" + line + "\n"
	}
	if err := config.Check(path, []byte(merged)); err != nil {
		return nil, failure.Usage("add to "+path+": "+strings.Join(added, ", "),
			"the configuration does not take what was asked for: %w", err)
	}
	if _, err := atomicfile.Write(path, []byte(merged), info.Mode().Perm()); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return added, nil
}
