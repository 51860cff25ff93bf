package legacy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

// node reads the state of the host. Lines are recognized by their format and not by their
// number, because a command that fails has no line.
func (r *reader) node(files map[string][]byte) snapshot.Node {
	var n snapshot.Node
	for _, line := range slices.Concat(lines(files[statusFile]), lines(files[disksFile])) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case strings.HasPrefix(f[0], "Mem:"):
			n.MemoryTotal, n.MemoryUsed = memory(f[1:])
		case strings.Contains(line, "load average"):
			n.Load1, n.Load5, n.Load15 = loads(line)
			n.UptimeSeconds = uptime(line)
		case len(f) == 1:
			n.Cores = cmp.Or(cores(f[0]), n.Cores)
		default:
			d, ok := disk(f)
			if ok && !slices.ContainsFunc(n.Disks, func(old snapshot.Disk) bool { return old.Mount == d.Mount }) {
				n.Disks = append(n.Disks, d)
			}
		}
	}
	if list := lines(files[cpusFile]); len(list) > 0 { // LOAD;CORES
		load, count, _ := strings.Cut(list[0], ";")
		n.Load1, n.Cores = cmp.Or(n.Load1, decimal(load)), cmp.Or(n.Cores, cores(count))
	}
	for _, line := range lines(files[localFile]) {
		size, where, _ := strings.Cut(strings.TrimSpace(line), "/")
		i := strings.LastIndexByte(where, '/')
		if used, ok := sizeMiB(strings.TrimSpace(size)); ok && i > 0 && i < len(where)-1 {
			n.DiskUsers = append(n.DiskUsers, snapshot.DiskUser{Path: "/" + where[:i], User: where[i+1:], Used: used})
		}
	}
	return n
}

func cores(s string) *int {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > 0 {
		return &n
	}
	return nil
}

// memory parses the numbers of free -m after "Mem:". New versions end with the available
// memory; old ones end with the caches, which they count as used.
func memory(f []string) (total, used *int64) {
	var v []int64
	for _, s := range f {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			break
		}
		v = append(v, n)
	}
	switch {
	case len(v) < 2:
		return nil, nil
	case len(v) >= 6 && abs(v[1]+v[2]-v[0]) <= 2:
		return &v[0], new(max(0, v[1]-v[4]-v[5]))
	case len(v) >= 6:
		return &v[0], new(max(0, v[0]-v[5]))
	}
	return &v[0], &v[1]
}

func abs(n int64) int64 { return max(n, -n) }

// disk parses a line of df in KiB: source, blocks, used, available, percentage, mount.
func disk(f []string) (snapshot.Disk, bool) {
	if len(f) < 6 || !strings.HasSuffix(f[4], "%") || !strings.HasPrefix(f[5], "/") {
		return snapshot.Disk{}, false
	}
	switch f[0] {
	case "tmpfs", "devtmpfs", "udev", "overlay", "shm", "none", "efivarfs", "run", "dev":
		return snapshot.Disk{}, false
	}
	mount := strings.Join(f[5:], " ")
	if strings.HasPrefix(f[0], "/dev/loop") || strings.HasPrefix(mount, "/boot") {
		return snapshot.Disk{}, false
	}
	total, err1 := strconv.ParseInt(f[1], 10, 64)
	used, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil || used < 0 || total < used {
		return snapshot.Disk{}, false
	}
	return snapshot.Disk{Mount: mount, Total: total >> 10, Used: used >> 10}, true
}

// loads parses the three numbers of uptime, which may have decimal commas.
func loads(line string) (one, five, fifteen *float64) {
	_, tail, _ := strings.Cut(line, "load average")
	tail = strings.TrimLeft(tail, "s: ")
	f := strings.Fields(tail)
	for i, to := range []**float64{&one, &five, &fifteen} {
		if i < len(f) {
			*to = decimal(strings.TrimSuffix(f[i], ","))
		}
	}
	return one, five, fifteen
}

func decimal(s string) *float64 {
	n := number(strings.Replace(strings.TrimSpace(s), ",", ".", 1))
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// up matches "up 12 days,  3:04" or "up 5 min".
var up = snapshot.Pattern(
	`\bup +(?:([0-9]{1,6}) days?, *)?(?:([0-9]{1,2}):([0-9]{2})|([0-9]{1,3}) mins?|([0-9]{1,3}) secs?)?`)

// uptime is in seconds.
func uptime(line string) *int64 {
	m := up().FindStringSubmatch(line)
	if m == nil || strings.Join(m[1:], "") == "" {
		return nil
	}
	part := func(i int) int64 { n, _ := strconv.ParseInt(m[i], 10, 64); return n }
	return new(part(1)*86400 + part(2)*3600 + part(3)*60 + part(4)*60 + part(5))
}

// sizeMiB parses sizes of du -h: 12G, 1.5T, 300M, 0.
func sizeMiB(s string) (int64, bool) {
	units := map[byte]float64{'K': 1. / 1024, 'M': 1, 'G': 1 << 10, 'T': 1 << 20, 'P': 1 << 30}
	factor := 1. / 1024 // without a unit: KiB
	if n := len(s); n > 0 {
		if f, ok := units[s[n-1]]; ok {
			s, factor = s[:n-1], f
		}
	}
	n := decimal(s)
	if n == nil || *n*factor > 1<<32 {
		return 0, false
	}
	return int64(*n * factor), true
}
