package snapshot

import (
	"slices"
	"strconv"
	"strings"
)

// An Owner is whose a process is: a person, or an unknown user with what is known of it.
type Owner struct {
	// Person is a login name, or who is behind it; "" for an unknown user.
	Person string
	// Account is the account of an unknown user: "root", "uid 100999", or "" if nothing is known.
	Account string
	// Container is where an unknown user's process runs; "" for the host itself.
	Container string
}

// String names the owner: "ada", "unknown (root in container a1b2c3d4)" or "unknown".
func (o Owner) String() string {
	known := o.Account
	if o.Container != "" {
		known = strings.TrimSpace(known + " in container " + o.Container)
	}
	switch {
	case o.Person != "":
		return o.Person
	case known == "":
		return "unknown"
	}
	return "unknown (" + known + ")"
}

// MarshalText is String, for JSON.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// servicePrograms hold GPUs on behalf of others: CUDA MPS and DCGM.
func servicePrograms() []string {
	return []string{"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nv-hostengine"}
}

// Service reports whether the program holds GPUs on behalf of others.
func (p *Process) Service() bool { return slices.Contains(servicePrograms(), p.Program) }

// Dead reports whether the process is known to have ended.
func (p *Process) Dead() bool { return p.Alive != nil && !*p.Alive }

// Computes reports whether the process counts as using the GPU. A dead process, a display server and
// a service program do not. An unknown type does, because showing a busy GPU as free is the worse error.
func (p *Process) Computes() bool { return p.Type != Graphics && !p.Dead() && !p.Service() }

// Login returns the login name of the ordinary account that owns the process, and "" where that is
// not known for certain: for root, system accounts, and a uid without a name, in a container or not.
func (p *Process) Login() string {
	if p.BareUID() || SystemAccount(p.User) || p.UID != nil && systemUID(*p.UID) {
		return ""
	}
	return p.User
}

// Unknown returns the owner as an unknown user, with what is known of it.
func (p *Process) Unknown() Owner {
	o := Owner{Account: p.User, Container: p.Container}
	switch {
	case p.BareUID():
		o.Account = "uid " + p.User
	case p.User == "" && p.UID != nil:
		o.Account = "uid " + strconv.FormatInt(*p.UID, 10)
	}
	return o
}

// Owner returns whose the process is, as far as its account tells.
func (c *Child) Owner() Owner {
	p := Process{User: c.User}
	if login := p.Login(); login != "" {
		return Owner{Person: login}
	}
	return p.Unknown()
}

// BareUID reports whether User is no name but the uid. Digits may also be a login name: then the uid is
// another number. Without a uid they count as one, because nobody is named on a guess.
func (p *Process) BareUID() bool {
	if p.UID != nil {
		return p.User == strconv.FormatInt(*p.UID, 10)
	}
	return p.User != "" && strings.Trim(p.User, "0123456789") == ""
}

const (
	firstUserUID = 1000  // of ordinary accounts
	nobodyUID    = 65534 // also of all accounts that a user namespace does not map
)

func systemUID(uid int64) bool { return uid < firstUserUID || uid == nobodyUID }

// SystemAccount reports whether a login name alone tells that it is not a person's.
func SystemAccount(name string) bool {
	switch strings.ToLower(name) {
	case "root", "daemon", "nobody", "nfsnobody", "gdm", "debian-gdm", "lightdm", "sddm", "xdm", "www-data", "dockremap",
		"ollama", "slurm", "nvidia-persistenced", "nvidia-dcgm":
		return true
	}
	return strings.HasPrefix(name, "systemd-")
}
