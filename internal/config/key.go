package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/spelling"
)

// A Key is one setting. Its flag is --name-with-dashes, its variable
// GPUBOARD_NAME_WITH_UNDERSCORES, and in the file a dot separates section and name.
type Key struct {
	Name    string // "consul.service"
	Default string
	Kind    Kind
	Arg     string // what help calls the value: DIR, FILE, DURATION
	Help    string
}

// A Kind says how a value is written.
type Kind int

// The kinds of values. A list is separated by commas, a zone is a name of the
// IANA list, and a word is one of Key.words.
const (
	text Kind = iota
	duration
	automatic // a duration, or auto
	number
	Boolean
	list
	zone
	word
)

// Flag returns the name of the key's flag, without dashes.
func (k Key) Flag() string {
	switch k.Name {
	// Settings that turn a whole feature on have a flag of one word.
	case "register.enabled":
		return "register"
	case "consul.leader":
		return "leader"
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// Env returns the name of the key's variable.
func (k Key) Env() string {
	return "GPUBOARD_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// words are the values that a key may have; nil for any.
func (k Key) words() []string {
	switch k.Name {
	case "users", "public_users":
		return []string{string(board.UsersFull), string(board.UsersInitials), string(board.UsersHash),
			string(board.UsersNone)}
	case "commands", "public_commands":
		return []string{string(board.ProgramsShown), string(board.ProgramsHidden)}
	case "container_uids":
		return []string{"likely", "trusted"}
	case "compat":
		return []string{"vesta", "nvgpu", "gpu-cluster-monitor", "all"}
	case "hosts_from":
		return []string{"consul", "list", "drops"}
	}
	return nil
}

// check returns what is wrong with a value. An empty one is right unless there are words.
func (k Key) check(s string) error {
	values := []string{s}
	if k.Kind == list {
		values = items(s)
	}
	if words := k.words(); words != nil {
		for _, v := range values {
			if !slices.Contains(words, v) {
				return fmt.Errorf("%q is none of %s%s", v, strings.Join(words, ", "), spelling.DidYouMean(v, words))
			}
		}
	}
	var err error
	switch k.Name {
	case "container_people":
		_, err = containerPeople(s)
	case "pull":
		_, err = pulledOf(values)
	case "sites":
		_, err = sitesOf(values)
	}
	switch k.Kind {
	case duration, automatic:
		or := ""
		if k.Kind == automatic {
			or = ", or auto"
		}
		if d, bad := time.ParseDuration(s); s != "" && (bad != nil || d < 0) && (or == "" || s != "auto") {
			err = fmt.Errorf("%q is not a duration; write it as 20s, 5m or 24h%s", s, or)
		}
	case number:
		if n, bad := strconv.ParseFloat(s, 64); s != "" && (bad != nil || !(n >= 0)) {
			err = fmt.Errorf("%q is not a number", s)
		}
	case Boolean:
		if _, bad := strconv.ParseBool(s); bad != nil {
			near := spelling.DidYouMean(strings.ToLower(s), []string{"true", "false"})
			err = fmt.Errorf("%q is neither true nor false%s", s, near)
		}
	case zone:
		if _, bad := time.LoadLocation(s); bad != nil {
			err = fmt.Errorf("%q is not a time zone; names are those of the IANA list, such as Europe/Paris or UTC%s",
				s, nearZone(s))
		}
	}
	return err
}

// DefaultHere returns the default of a key on this machine. For some it depends on
// who runs the program.
func (k Key) DefaultHere(getenv func(string) string) string {
	switch k.Name {
	case "host":
		return ShortHostname()
	case "spool", "state":
		return stateDir(k.Name, getenv)
	}
	return k.Default
}

// stateDir returns a directory in /var/lib/gpuboard for root and for the service account
// that owns it, else in the user's own state directory.
func stateDir(name string, getenv func(string) string) string {
	const system = "/var/lib/gpuboard"
	if os.Geteuid() == 0 || Writable(system) == nil {
		return filepath.Join(system, name)
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gpuboard", name)
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "gpuboard", name)
	}
	return filepath.Join(system, name)
}

// Writable makes and removes a file in a directory, and returns why this user cannot.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, ".tmp-probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// IsFile reports whether there is a regular file at path.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// IsDir reports whether there is a directory at path.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ShortHostname returns the machine's name up to the first dot, in lower case.
func ShortHostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.ToLower(name)
}

// NodeKeys are the settings of everything that runs on a node.
func NodeKeys() []string {
	return []string{"host", "spool", "nvidia_smi", "nvidia_smi_timeout", "amd_smi", "amd_integrated", "ps", "every",
		"to", "identity", "known_hosts",
		"push_timeout", "register.enabled", "register.title", "register.group", "register.owner", "register.notes",
		"register.tags", "register.ssh_host", "register.gpus", "register.ttl", "consul.service"}
}

// WebKeys are the settings of everything that makes a site.
func WebKeys() []string {
	return []string{
		"data", "site", "state", "comments", "aliases", "templates", "interval", "generate_every", "drops", "pull",
		"hosts_from", "hosts",
		"accept_shrink", "consul.enabled", "consul.service", "consul.tags", "consul.filter", "consul.datacenters",
		"consul.node_meta", "consul.leader", "consul.leader_key",
		"sites", "title", "lab", "language", "languages", "timezone", "booking.timezone", "booking.end_of_day",
		"base_url", "compat",
		"users", "commands", "public_out", "public_users", "public_commands", "no_help", "public_help",
		"publish_to", "publish_every", "identity", "known_hosts",
		"stale_after", "down_after", "clock_tolerance", "free_memory_mib", "free_memory_percent", "no_show_after",
		"show_expired", "service_accounts", "container_uids", "container_people", "legacy", "legacy_zone",
		"idle_window", "idle_percent", "idle_notice", "people.domain", "no_history", "history.hourly",
		"energy.price_per_kwh", "energy.currency", "energy.co2_grams_per_kwh",
	}
}

// Among returns the key that the program itself names.
func Among(all []Key, name string) Key {
	i := slices.IndexFunc(all, func(k Key) bool { return k.Name == name })
	if i < 0 {
		panic("gpuboard/config: no setting is called " + name)
	}
	return all[i]
}

// NodeAndWebKeys are those of both, each once.
func NodeAndWebKeys() []string {
	return append(NodeKeys(),
		slices.DeleteFunc(WebKeys(), func(name string) bool { return slices.Contains(NodeKeys(), name) })...)
}
