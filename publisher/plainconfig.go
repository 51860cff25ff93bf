package publisher

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SystemConfig is where ssh looks for the settings of all users.
const SystemConfig = "/etc/ssh/ssh_config"

// maxIncluded bounds how deep, and how many, files may be included by one
// another before ssh itself is asked what comes of it.
const maxIncluded = 32

// Unconfigured returns what `ssh -G host` says of the settings that are read here
// where nobody has configured any, and false where somebody may have. A node asks
// at every connection, and to start ssh for it costs nearly as much as to log in.
//
// It understands only so much of ssh_config(5) as it takes to be sure: a file
// must have nothing but keywords that do not matter here, in all places that may
// be about this host. What it is not sure of, ssh has to be asked.
func Unconfigured(host string) (answer []byte, ok bool) {
	// ssh takes the home directory from the list of users, and not from HOME.
	home, err := os.UserHomeDir()
	me, lookupErr := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || lookupErr != nil || me.HomeDir != home {
		return nil, false
	}
	// Some systems have the defaults of their vendor where this file is missing.
	if _, err := os.Stat(SystemConfig); err != nil {
		return nil, false
	}
	return unconfigured(host, filepath.Join(home, ".ssh", "config"), SystemConfig)
}

// The files that ssh tries when it is told of none, as -G lists them.
const defaultIdentities = "identityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ecdsa\nidentityfile ~/.ssh/id_ecdsa_sk\n" +
	"identityfile ~/.ssh/id_ed25519\nidentityfile ~/.ssh/id_ed25519_sk\n"

func unconfigured(host string, files ...string) (answer []byte, ok bool) {
	if !settled(host) {
		return nil, false
	}
	r := plainReader{host: strings.ToLower(host)}
	for _, name := range files {
		if !r.file(name, filepath.Dir(name), true) {
			return nil, false
		}
	}
	return []byte("hostname " + r.host + "\n" + defaultIdentities), true
}

// settled reports whether ssh would leave a name as it is. It writes addresses
// anew, and 127.1 is one, too.
func settled(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Zone() == "" && addr.String() == host
	}
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	return plainName(host) && last != "" && last[0] >= 'a' && last[0] <= 'z'
}

// A plainReader looks for anything that could be a setting of this host.
type plainReader struct {
	host string
	read int // files
}

// file reports whether a file surely says nothing. Relative names of included
// files are taken from dir. The first lines are about this host if about is true.
func (r *plainReader) file(name, dir string, about bool) bool {
	if r.read++; r.read > maxIncluded {
		return false
	}
	raw, err := readBounded(name, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == '=' || c == '\n' || c == '\r' || c == '\f' })
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		switch keyword, rest := strings.ToLower(words[0]), words[1:]; {
		case keyword == "host":
			about = slices.ContainsFunc(rest, r.mayBe)
		case keyword == "match":
			if slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(strings.ToLower(w), "exec") }) {
				return false // a program decides
			}
			about = true
		case !about || harmless(keyword):
		case keyword != "include" || !r.included(rest, dir):
			return false
		}
	}
	return true
}

// mayBe reports whether a pattern of a Host line may be about this host.
func (r *plainReader) mayBe(pattern string) bool {
	if strings.ContainsAny(pattern, `[]\!"'`) {
		return true // means other things to path.Match than to ssh
	}
	matched, err := path.Match(strings.ToLower(pattern), r.host)
	return matched || err != nil
}

func (r *plainReader) included(names []string, dir string) bool {
	for _, name := range names {
		if strings.ContainsAny(name, "\"'\\~%$") {
			return false
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		found, err := filepath.Glob(name)
		if err != nil || slices.ContainsFunc(found, func(name string) bool { return !r.file(name, dir, true) }) {
			return false
		}
	}
	return true
}

// harmless are keywords that change nothing of what is read here, wherever they
// stand: those that distributions and most people write.
func harmless(keyword string) bool {
	switch keyword {
	case "addkeystoagent", "casignaturealgorithms", "checkhostip", "ciphers", "compression", "controlmaster", "controlpath", "controlpersist",
		"forwardagent", "forwardx11", "forwardx11trusted", "gssapiauthentication", "gssapidelegatecredentials", "gssapikexalgorithms",
		"hashknownhosts", "hostkeyalgorithms", "kexalgorithms", "loglevel", "macs", "passwordauthentication", "permitlocalcommand",
		"pubkeyacceptedalgorithms", "rekeylimit", "requiredrsasize", "sendenv", "serveralivecountmax", "serveraliveinterval", "setenv",
		"stricthostkeychecking", "tcpkeepalive", "updatehostkeys", "verifyhostkeydns", "visualhostkey", "xauthlocation":
		return true
	}
	return false
}
