package snapshot

import "strings"

// IsSlice reports whether a UUID is that of a MIG device, which is a part of a GPU and
// does not count as another one.
func IsSlice(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// MIGDeviceOf returns the index of the MIG device on which a process of a GPU runs, or -1
// if it may be several or none.
func MIGDeviceOf(devices []MIGDevice, p *Process) int {
	if p.GPUInstanceID == nil {
		return -1
	}
	may := func(a, b *int) bool { return a == nil || b == nil || *a == *b }
	var exact, possible []int
	for i, d := range devices {
		switch {
		case !may(d.GPUInstanceID, p.GPUInstanceID) || !may(d.ComputeInstanceID, p.ComputeInstanceID):
		case d.GPUInstanceID != nil && d.ComputeInstanceID != nil && p.ComputeInstanceID != nil:
			exact = append(exact, i)
		default:
			possible = append(possible, i)
		}
	}
	if len(exact) > 0 {
		possible = exact
	}
	if len(possible) != 1 {
		return -1
	}
	return possible[0]
}
