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
	found, exact, more := -1, 0, 0
	for i := range devices {
		d := &devices[i]
		if !may(d.GPUInstanceID, p.GPUInstanceID) || !may(d.ComputeInstanceID, p.ComputeInstanceID) {
			continue
		}
		if d.GPUInstanceID != nil && d.ComputeInstanceID != nil && p.ComputeInstanceID != nil {
			found = i
			exact++
			continue
		}
		if more++; exact == 0 {
			found = i
		}
	}
	if exact > 1 || exact == 0 && more > 1 {
		return -1
	}
	return found
}
