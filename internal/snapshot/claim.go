package snapshot

import "slices"

// A Claim says whose a process is, and by what. User is a login name.
type Claim struct {
	User   string `json:"user"`
	Source Source `json:"source"`
}

// A Source is what tells whose a process is.
type Source string

// The sources, those that count most first. A node sends all but ByOwner, ByNamespace, BySite and ByUID.
const (
	ByOwner     Source = "owner"    // the account, outside of containers
	ByNamespace Source = "userns"   // a user namespace that maps the account's uid alone
	BySubUID    Source = "subuid"   // the uid is one of the person's in /etc/subuid, in a namespace of the person's
	BySite      Source = "site"     // the site's own settings
	BySession   Source = "session"  // user-UID.slice in the cgroup
	BySlurm     Source = "slurm"    // uid_UID in the cgroup of a Slurm job
	ByLoginUID  Source = "loginuid" // who has logged in
	ByLabel     Source = "label"    // a label of the container
	ByUID       Source = "uid"      // the account, in a container
	ByRange     Source = "range"    // the uid is one of the person's in /etc/subuid, in a namespace of anybody's
	ByHome      Source = "home"     // the container can write this person's home, and no other one
	ByFolder    Source = "folder"   // the owner of the folder that compose or a devcontainer was started in
)

// rank orders sources by how much they prove: whose the uid is, what the site says, who has started it. Those of
// likelyRank prove nothing, and make a person likely. Those of a later version count for less.
func (s Source) rank() int {
	switch s {
	case ByOwner, ByNamespace, BySubUID:
		return 0
	case BySite:
		return 1
	case BySession, BySlurm, ByLoginUID, ByLabel:
		return 2
	case ByUID, ByRange, ByHome, ByFolder:
		return likelyRank
	}
	return likelyRank + 1
}

const likelyRank = 3

// Owner returns whose the process is, as far as its node knows.
func (p *Process) Owner() Owner {
	owner, _ := p.Whose()
	return owner
}

// Whose returns whose the process is, and the claims that say so: those of its account, of its node, and more. If
// the best of them contradict each other, the owner is unknown, and the claims are two that do. Whoever starts a
// program that holds GPUs on behalf of others does not use them.
func (p *Process) Whose(more ...Claim) (Owner, []Claim) {
	claims := p.account()
	if !p.Service() {
		claims = slices.Concat(claims, p.Claims, more)
	}
	var best []Claim
	at := likelyRank
	for _, c := range claims {
		rank := c.Source.rank()
		switch {
		case rank > at || !Fits("login", c.User) || SystemAccount(c.User):
		case rank < at:
			best, at = []Claim{c}, rank
		default:
			best = append(best, c)
		}
	}
	if len(best) == 0 {
		return p.Unknown(), nil
	}
	for _, c := range best[1:] {
		if c.User != best[0].User {
			return p.Unknown(), []Claim{best[0], c}
		}
	}
	if at == likelyRank {
		return Owner{Likely: best[0].User}, best
	}
	return Owner{Person: best[0].User}, best
}

// account returns what the account of the process tells. In a container that is only likely: an image that runs
// as uid 1000 has the account of whoever has that uid on the node. It is certain in a user namespace of the
// account's own.
func (p *Process) account() []Claim {
	switch login := p.Login(); {
	case login == "":
		return nil
	case p.Container == "":
		return []Claim{{login, ByOwner}}
	case p.OwnUserNamespace:
		return []Claim{{login, ByNamespace}}
	default:
		return []Claim{{login, ByUID}}
	}
}
