package pull

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/collector"
	"gpuboard/internal/snapshot"
)

const (
	maxOutput = 16 << 20 // of one reading
	maxFiles  = 8192
)

// An answer is what one run of the command printed.
type answer struct {
	programs map[string]*collector.Answer
	files    map[string]*bytes.Buffer // by path, without the slash in front
	up       []time.Duration          // when nvidia-smi and ps were started
	lost     bool                     // a file was not taken
}

const kfd = "sys/class/kfd/"

// mayExist matches the files that the collector reads, and directories with a slash behind; a node can print any path.
// No file has the name of a directory.
var mayExist = snapshot.Pattern(`^(?:etc/(?:os-release|passwd|subuid|nsswitch\.conf)|` +
	`proc/(?:uptime|loadavg|meminfo|stat|sys/kernel/(?:random/boot_id|osrelease)|self/(?:mountinfo|ns/pid)|` +
	`[1-9][0-9]{0,6}/(?:stat|status|cgroup|uid_map|loginuid|mountinfo|cmdline|alive|fdinfo/[0-9]{1,7}))|` +
	`sys/module/amdgpu/version|sys/class/drm/card[0-9]{1,3}/device/(?:uevent|vendor|[a-z]{2,9}_[a-z_]{2,30}|` +
	`hwmon/hwmon[0-9]{1,3}/(?:pwm1|[a-z]{2,5}[1-3]_[a-z]{3,7}))|` +
	kfd + `kfd/(?:topology/nodes/[0-9]{1,4}/(?:gpu_id|properties|mem_banks/0/properties)|` +
	`proc/(?:[1-9][0-9]{0,6}/(?:context_[0-9]{1,7}/)?(?:vram_[0-9]{1,10}|queues/(?:[0-9]{1,7}/gpuid)?)?)?))$`)

// parse reads the output of the command. Login shells may print something before.
func parse(out []byte) (*answer, error) {
	a := &answer{programs: map[string]*collector.Answer{}, files: map[string]*bytes.Buffer{}}
	program, ended := &collector.Answer{}, false
	known := []string{"smi", "list", "static", "metric", "process", "version", "rocm", "none", "ps", "getent", "df"}
	for line := range bytes.Lines(out) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		if ended = string(text) == "."; ended || len(text) == 0 {
			continue
		}
		switch rest := string(text[1:]); text[0] {
		case '>':
			program = &collector.Answer{TimedOut: true} // until its status is there
			if slices.Contains(known, rest) {
				a.programs[rest] = program
			}
		case '|':
			program.Stdout = append(program.Stdout, line[1:]...)
		case '%':
			if status, ok := strings.CutPrefix(rest, "?"); ok { // the last one counts: others are words of the program
				program.Exit, _ = strconv.Atoi(status)
				program.TimedOut = program.Exit == 124 || program.Exit == 137
			}
			program.Stderr = append(program.Stderr, line[1:]...)
		case '@':
			seconds, err := strconv.ParseFloat(rest, 64)
			if err != nil || !(seconds >= 0 && seconds < 1e9) || len(a.up) == 2 {
				return nil, fmt.Errorf("%q is no uptime", rest)
			}
			a.up = append(a.up, time.Duration(seconds*float64(time.Second)))
		case '/':
			a.addLine(rest)
		}
	}
	if len(a.up) != 2 || a.up[1] < a.up[0] || !ended {
		return nil, errors.New("its answer is not that of the command, or not whole")
	}
	for _, p := range a.programs {
		p.Stderr = p.Stderr[:max(0, bytes.LastIndexByte(bytes.TrimSuffix(p.Stderr, []byte("\n")), '?'))]
	}
	return a, nil
}

// addLine adds a line of a file.
func (a *answer) addLine(line string) {
	name, text, _ := strings.Cut(line, ":")
	b := a.files[name]
	if b == nil {
		if len(a.files) == maxFiles || !mayExist().MatchString(name) {
			a.lost = a.lost || strings.HasPrefix(name, kfd)
			return
		}
		b = &bytes.Buffer{}
		a.files[name] = b
	}
	b.WriteString(text + "\n")
}

// write puts the files below a directory, which it empties first.
func (a *answer) write(dir string) error {
	if p := a.programs["getent"]; p != nil { // those of a directory service come after those of the node
		for line := range bytes.Lines(p.Stdout) {
			a.addLine("etc/passwd:" + strings.TrimSuffix(string(line), "\n"))
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, b := range a.files {
		if a.lost && strings.HasPrefix(name, kfd) { // without a part of its list, a GPU in use would look free
			continue
		}
		path := dir + "/" + name // with its slash if it is a directory
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		text := strings.TrimSuffix(b.String(), "\n")
		switch {
		case err != nil || strings.HasSuffix(name, "/"):
		case name != "proc/self/ns/pid":
			err = os.WriteFile(path, b.Bytes(), 0o600)
			if pid, fd, ok := strings.Cut(name, "/fdinfo/"); ok && err == nil { // it counts by its link alone
				fd = filepath.Join(dir, pid, "fd", fd)
				_ = os.MkdirAll(filepath.Dir(fd), 0o700)
				err = os.Symlink("/dev/dri/-", fd) // nothing follows it
			}
		case strings.HasPrefix(text, "pid:["): // a link like the kernel's, which leads nowhere
			err = os.Symlink(text, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// usage returns the size and usage of a file system in MiB, by df; 0 for one that it does not list.
func (a *answer) usage(mount string) (total, used int64, err error) {
	if p := a.programs["df"]; p != nil {
		for line := range bytes.Lines(p.Stdout) {
			// Filesystem 1024-blocks Used Available Capacity Mounted on
			fields := strings.Fields(string(line))
			at := slices.IndexFunc(fields, func(s string) bool { return strings.HasSuffix(s, "%") })
			if at < 3 || strings.Join(fields[at+1:], " ") != mount {
				continue
			}
			total, _ = strconv.ParseInt(fields[at-3], 10, 64)
			used, _ = strconv.ParseInt(fields[at-2], 10, 64)
		}
	}
	return total >> 10, used >> 10, nil
}
