package snapshot

import (
	"cmp"
	"slices"
)

// Bounds up to which what displays and service programs hold is not use of a GPU.
const (
	maxBackgroundMemory      = 1536 // MiB, of all of them together
	maxBackgroundUtilization = 30   // %, which displays alone do not reach
)

// DriverMemory is the most memory, in MiB, that a driver holds by itself: no context of a program
// fits into less.
const DriverMemory = 200

// background reports whether the process belongs to a display, or is a service program of the system. Anybody
// can name a program like a service program, so its account has to be known as root or a system account.
func (p *Process) background() bool {
	if p.Type == Graphics {
		return true
	}
	return p.Service() && (SystemAccount(p.User) || p.UID != nil && systemUID(*p.UID))
}

// Computing reports for each process of a GPU or MIG device whether it uses it. Every living process does, also
// one of unknown type, because showing a busy GPU as free is the worse error. Displays and service programs are
// the exception, in two steps:
//
//   - Of their memory, [maxBackgroundMemory] is not use. If they hold more, the largest of them use the GPU.
//   - If nobody else does and utilization, in percent, is too high for a display, they use it. If they belong to
//     several people, none of them is named on a guess, and the result is false for all.
func Computing(utilization *int, procs []*Process) []bool {
	computing := make([]bool, len(procs))
	var background []int
	for i, p := range procs {
		switch {
		case p.Dead():
		case p.background():
			background = append(background, i)
		default:
			computing[i] = true
		}
	}

	slices.SortStableFunc(background, func(i, j int) int {
		return cmp.Compare(value(procs[i].UsedMemory), value(procs[j].UsedMemory))
	})
	held := int64(0)
	for _, i := range background {
		held += value(procs[i].UsedMemory)
		computing[i] = held > maxBackgroundMemory
	}

	if slices.Contains(computing, true) || !TooBusyForDisplay(utilization) {
		return computing
	}

	person := ""
	for _, i := range background {
		switch login := procs[i].Login(); {
		case login == "" || login == person:
		case person == "":
			person = login
		default:
			return computing
		}
	}
	for _, i := range background {
		computing[i] = procs[i].Login() == person
	}
	return computing
}

// TooBusyForDisplay reports whether a utilization, in percent, is higher than a display alone causes.
func TooBusyForDisplay(utilization *int) bool {
	return utilization != nil && *utilization >= maxBackgroundUtilization
}
