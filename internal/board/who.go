package board

import (
	"slices"

	"gpuboard/internal/snapshot"
)

// Owner returns whose the process is: a person, or an unknown user.
func (p *Process) Owner() snapshot.Owner {
	if p.Person != "" {
		return snapshot.Owner{Person: p.Person}
	}
	return p.Unknown()
}

// Of reports whether the process is somebody's who has this name. An unknown user has that of the
// account, unless the account is a container's.
func (p *Process) Of(named func(string) bool) bool {
	if p.Person == "" && p.Container != "" {
		return false
	}
	return p.Person != "" && named(p.Person) || p.User != "" && named(p.User)
}

// Computing returns the processes that use the GPU, in the order of Processes.
func (g *GPU) Computing() []*Process {
	var list []*Process
	for i := range g.Processes {
		if p := &g.Processes[i]; p.Computes() {
			list = append(list, p)
		}
	}
	return list
}

// Owners returns whose the processes that use the GPU are, each once: people and unknown users.
func (g *GPU) Owners() []snapshot.Owner { return ownersOf(g.Computing()) }

// Users returns the people who use the GPU, in order of name.
func (g *GPU) Users() []string { return PeopleOf(g.Owners()) }

// PeopleOf returns the people among owners, in order of name.
func PeopleOf(owners []snapshot.Owner) []string {
	var people []string
	for _, o := range owners {
		if o.Person != "" {
			people = append(people, o.Person)
		}
	}
	slices.Sort(people)
	return people
}

// Unknown returns the unknown users of the GPU.
func (g *GPU) Unknown() []snapshot.Owner {
	return slices.DeleteFunc(g.Owners(), func(o snapshot.Owner) bool { return o.Person != "" })
}

// Left returns whose dead processes hold the memory of a GPU that is stuck. They do not use it any more.
func (g *GPU) Left() []snapshot.Owner {
	var gone []*Process
	for i := range g.Processes {
		if p := &g.Processes[i]; g.State == Stuck && p.Dead() {
			gone = append(gone, p)
		}
	}
	return ownersOf(gone)
}

func ownersOf(list []*Process) []snapshot.Owner {
	var owners []snapshot.Owner
	seen := map[snapshot.Owner]bool{}
	for _, p := range list {
		if o := p.Owner(); !seen[o] {
			seen[o] = true
			owners = append(owners, o)
		}
	}
	return owners
}
