package snapshot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// An Owner is whose a process is: a person, somebody who is likely a person, or an unknown user with what is
// known of it.
type Owner struct {
	// Person is a login name, or who is behind it; "" if that is not certain.
	Person string
	// Likely is the same where it is not certain. It is shown, and counts for nothing.
	Likely string
	// Account is the account of an unknown user: "root", "uid 100999", or "" if nothing is known.
	Account string
	// Place is where an unknown user's process runs; the zero value for the host itself.
	Place Place
}

// A Place is what a process belongs to besides an account.
type Place struct{ Kind, Name string }

// The kinds of a place.
const (
	InContainer = "container" // by its name, or else its id
	InPod       = "pod"
	InJob       = "job"  // of Slurm
	InUnit      = "unit" // of systemd, which tells more than its account
)

// Name is "ada" for a person, "ada?" for one who is only likely, and "" for an unknown user. [OwnerNamed] is
// its inverse.
func (o Owner) Name() string {
	if o.Likely != "" {
		return o.Likely + "?"
	}
	return o.Person
}

// Login is the name of a person, certain or likely; "" for an unknown user.
func (o Owner) Login() string { return cmp.Or(o.Person, o.Likely) }

// OwnerNamed returns the owner of a name that a sample has. What has no login's shape is nobody's name.
func OwnerNamed(name string) Owner {
	login, likely := strings.CutSuffix(name, "?")
	switch {
	case !Fits("login", login):
		return Owner{}
	case likely:
		return Owner{Likely: login}
	}
	return Owner{Person: login}
}

// String names the owner: "ada", "ada?", "unknown (root in container a1b2c3d4)" or "unknown".
func (o Owner) String() string {
	known := o.Account
	switch o.Place.Kind {
	case InContainer, InPod:
		known += " in " + o.Place.Kind + " " + o.Place.Name
	case InJob:
		known += " in Slurm job " + o.Place.Name
	case InUnit:
		known = o.Place.Name
	}
	known = strings.TrimSpace(known)
	switch {
	case o.Name() != "":
		return o.Name()
	case known == "":
		return "unknown"
	}
	return "unknown (" + known + ")"
}

// MarshalText is String, for JSON.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// servicePrograms hold GPUs on behalf of others: CUDA MPS, DCGM and the driver's persistence.
func servicePrograms() []string {
	return []string{"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nv-hostengine", "nvidia-persistenced"}
}

// Service reports whether the program is called like one that holds GPUs on behalf of others.
func (p *Process) Service() bool { return slices.Contains(servicePrograms(), p.Program) }

// Dead reports whether the process is known to have ended.
func (p *Process) Dead() bool { return p.Alive != nil && !*p.Alive }

// Login returns the login name of the ordinary account that the process runs as. It is "" for root, system
// accounts, a uid without a name, and a name that has no login's shape, in a container or not.
func (p *Process) Login() string {
	if p.BareUID() || SystemAccount(p.User) || p.UID != nil && systemUID(*p.UID) || !Fits("login", p.User) {
		return ""
	}
	return p.User
}

// Unknown returns the owner as an unknown user, with what is known of it.
func (p *Process) Unknown() Owner {
	o := Owner{Account: p.User, Place: p.Place()}
	switch {
	case p.BareUID():
		o.Account = "uid " + p.User
	case (p.User == "" || p.User == "?") && p.UID != nil:
		o.Account = "uid " + strconv.FormatInt(*p.UID, 10)
	case p.User == "?":
		o.Account = ""
	}
	return o
}

// Place returns what the process belongs to besides its account.
func (p *Process) Place() Place {
	switch {
	case p.Pod != "":
		return Place{InPod, p.Pod}
	case p.Container != "":
		return Place{InContainer, cmp.Or(p.ContainerName, p.Container)}
	case p.Job != "":
		return Place{InJob, p.Job}
	case p.Unit != "":
		return Place{InUnit, p.Unit}
	}
	return Place{}
}

// Owner returns whose the process is, as far as its account tells.
func (c *Child) Owner() Owner {
	p := Process{User: c.User}
	return p.Owner()
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
	known := []string{"root", "daemon", "nobody", "nfsnobody", "gdm", "debian-gdm", "lightdm", "sddm", "xdm", "www-data",
		"dockremap", "ollama", "slurm", "nvidia-persistenced", "nvidia-dcgm"}
	return slices.Contains(known, strings.ToLower(name)) || strings.HasPrefix(name, "systemd-")
}
