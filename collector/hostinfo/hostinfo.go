// Package hostinfo reads the state of the host: boot id, uptime, load, memory, local
// disks and addresses, from /proc and the kernel.
//
// Each source fails on its own: its values stay unknown, and a problem says why.
package hostinfo

import (
	"bytes"
	"cmp"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// maxFile bounds what is read of any file below /proc.
const maxFile = 1 << 20

// Roots says where to read.
type Roots struct {
	Proc string // "/proc"
	Etc  string // "/etc", for os-release
	Sys  string // "/sys", for the drivers of GPUs
	// Usage returns the size and usage of a file system; statfs if nil.
	Usage func(mount string) (total, used int64, err error)
	// Interfaces lists the network interfaces that have addresses; the kernel's if nil.
	Interfaces func() ([]snapshot.Interface, error)
	// Dev is "/dev", for the devices of GPUs.
	Dev string
}

// An Info is what could be read.
type Info struct {
	BootID   string
	Node     snapshot.Node
	Problems []snapshot.Problem
}

type reader struct {
	roots Roots
	info  Info
}

// Read reads everything. It depends on the local kernel only: it uses no file system on
// which another machine could make it block.
func Read(roots Roots) Info {
	if roots.Usage == nil {
		roots.Usage = statfs
	}
	if roots.Interfaces == nil {
		roots.Interfaces = interfaces
	}
	r := &reader{roots: roots}
	n := &r.info.Node
	r.file("boot id", "sys/kernel/random/boot_id", func(b []byte) (ok bool) {
		r.info.BootID, ok = parseBootID(b)
		return ok
	})
	r.file("uptime", "uptime", func(b []byte) (ok bool) { n.UptimeSeconds, ok = parseUptime(b); return ok })
	r.file("load", "loadavg", func(b []byte) (ok bool) { n.Load1, n.Load5, n.Load15, ok = parseLoad(b); return ok })
	r.file("memory", "meminfo",
		func(b []byte) (ok bool) { n.MemoryTotal, n.MemoryUsed, ok = parseMemory(b); return ok })
	r.file("cores", "stat", func(b []byte) (ok bool) { n.Cores, ok = parseCores(b); return ok })
	r.file("kernel", "sys/kernel/osrelease", func(b []byte) bool {
		n.Kernel = snapshot.Text(string(bytes.TrimSpace(b)), snapshot.MaxNameBytes)
		return n.Kernel != ""
	})
	r.read("operating system", filepath.Join(roots.Etc, "os-release"),
		func(b []byte) bool { n.OS = parseOSRelease(b); return true })
	r.file("disks", "self/mountinfo", func(b []byte) bool {
		r.disks(localMounts(Mounts(string(b))))
		return true
	})
	r.interfaces()
	return r.info
}

func (r *reader) problem(what, message string) {
	r.info.Problems = append(r.info.Problems,
		snapshot.NewProblem("host:partial", "the node's %s cannot be read: %s", what, message))
}

// limit reports how many there are beyond the limit, if any.
func (r *reader) limit(what string, more, most int) {
	if more > 0 {
		r.info.Problems = append(r.info.Problems,
			snapshot.NewProblem("host:limit", "+%d more %s; %d is the most", more, what, most))
	}
}

func (r *reader) file(what, name string, parse func([]byte) bool) {
	r.read(what, filepath.Join(r.roots.Proc, name), parse)
}

func (r *reader) read(what, path string, parse func([]byte) bool) {
	text, err := atomicfile.Read(path, maxFile)
	switch {
	case err != nil:
		r.problem(what, err.Error())
	case !parse(text):
		r.problem(what, path+" is not as expected")
	}
}

func parseBootID(b []byte) (string, bool) {
	id := strings.ToLower(string(bytes.TrimSpace(b)))
	if len(id) < 8 || len(id) > 64 || strings.Trim(id, "0123456789abcdef-") != "" {
		return "", false
	}
	return id, true
}

// parseUptime reads "12345.67 54321.00".
func parseUptime(b []byte) (*int64, bool) {
	v, ok := number(b, 0)
	if !ok || v > 1e10 {
		return nil, false
	}
	return new(int64(v)), true
}

// parseLoad reads "0.42 0.50 0.61 2/345 6789".
func parseLoad(b []byte) (one, five, fifteen *float64, ok bool) {
	var loads [3]float64
	for i := range loads {
		if loads[i], ok = number(b, i); !ok {
			return nil, nil, nil, false
		}
	}
	return &loads[0], &loads[1], &loads[2], true
}

func number(b []byte, field int) (float64, bool) {
	fields := bytes.Fields(b)
	if field >= len(fields) {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(fields[field]), 64)
	return v, err == nil && v >= 0 && v < 1e12
}

// parseMemory parses /proc/meminfo. Kernels before 3.14 have no MemAvailable; for them it
// is the sum of free memory, buffers and cache.
func parseMemory(b []byte) (total, used *int64, ok bool) {
	kib := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		name, rest, found := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseInt(fields[0], 10, 64); err == nil && v >= 0 && v < 1<<50 {
			kib[name] = v
		}
	}
	all, ok := kib["MemTotal"]
	if !ok {
		return nil, nil, false
	}
	total = new(all >> 10)
	available, hasAvailable := kib["MemAvailable"]
	if free, hasFree := kib["MemFree"]; !hasAvailable && hasFree {
		available, hasAvailable = free+kib["Buffers"]+kib["Cached"], true
	}
	if !hasAvailable || available > all {
		return total, nil, true
	}
	return total, new((all - available) >> 10), true
}

// parseCores counts the online processors in /proc/stat.
func parseCores(b []byte) (*int, bool) {
	n := 0
	for line := range bytes.Lines(b) {
		if len(line) > 3 && bytes.HasPrefix(line, []byte("cpu")) && line[3] >= '0' && line[3] <= '9' {
			n++
		}
	}
	return &n, n > 0
}

// parseOSRelease returns PRETTY_NAME, or NAME with VERSION.
func parseOSRelease(b []byte) string {
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		values[name] = strings.Trim(value, "'")
	}
	name := cmp.Or(values["PRETTY_NAME"], strings.TrimSpace(values["NAME"]+" "+values["VERSION"]))
	return snapshot.Text(name, snapshot.MaxNameBytes)
}

func (r *reader) interfaces() {
	all, err := r.roots.Interfaces()
	if err != nil {
		r.problem("interfaces", err.Error())
		return
	}
	r.info.Node.Interfaces = all[:min(len(all), snapshot.MaxInterfaces)]
	r.limit("interfaces", len(all)-len(r.info.Node.Interfaces), snapshot.MaxInterfaces)
}

// interfaces lists the kernel's interfaces by which a node can be reached.
func interfaces() (list []snapshot.Interface, err error) {
	all, err := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || virtual(i.Name) {
			continue
		}
		if addrs := addresses(&i); len(addrs) > 0 {
			list = append(list, snapshot.Interface{Name: snapshot.Text(i.Name, snapshot.MaxNameBytes), Addrs: addrs})
		}
	}
	return list, err
}

// virtual reports whether an interface belongs to containers or virtual machines. A node
// may have hundreds of them, and cannot be reached there.
func virtual(name string) bool {
	prefixes := []string{"docker", "veth", "br-", "virbr", "vnet", "cni", "flannel", "cali", "lxc", "lxdbr", "podman",
		"tap", "kube-", "nodelocaldns"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func addresses(i *net.Interface) []string {
	all, err := i.Addrs()
	if err != nil {
		return nil
	}
	var list []string
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		if ok && !ip.IP.IsLinkLocalUnicast() && !ip.IP.IsLoopback() && len(list) < snapshot.MaxAddrs {
			list = append(list, ip.IP.String())
		}
	}
	return list
}
