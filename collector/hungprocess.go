package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// A hungProcess is a vendor's program that could not be killed. While it exists, another one
// would hang too, because both wait for the same lock of the driver.
type hungProcess struct {
	PID int `json:"pid"`
	// Started is the start in clock ticks since boot. It tells the process from a later
	// one with the same pid.
	Started uint64 `json:"started_ticks"`
	BootID  string `json:"boot_id"`
	Since   string `json:"since"` // RFC 3339
}

const maxStateFile = 4 << 10

// readHung reads the record of an earlier collector; nil if there is none that can be
// read.
func readHung(file string) *hungProcess {
	var h hungProcess
	text, err := atomicfile.Read(file, maxStateFile)
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID < 2 {
		return nil
	}
	return &h
}

func writeHung(file string, h hungProcess) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(h)
	if err == nil {
		_, err = atomicfile.Write(file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting a program that hangs: %w", err)
	}
	return nil
}

// alive reports whether this process still exists.
func (h hungProcess) alive(procRoot string) bool {
	boot := bootID(procRoot)
	if h.BootID != "" && boot != "" && h.BootID != boot {
		return false
	}
	state, started, ok := ProcStat(procRoot, h.PID)
	return ok && state != 'Z' && state != 'X' && (h.Started == 0 || started == h.Started)
}

// exists reports whether there is a process with this pid, of any owner.
func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// ProcStat reads the state and the start, in clock ticks since the boot, of a process.
func ProcStat(procRoot string, pid int) (state byte, started uint64, ok bool) {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	return parseStat(text)
}

// parseStat parses /proc/PID/stat. The name in it may contain anything, so fields are
// counted from the last parenthesis.
func parseStat(text []byte) (state byte, started uint64, ok bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	started, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], started, err == nil
}

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for what it shows in /proc.
const ticksPerSecond = 100

// hungFile is the file that records a program that hangs.
func (c *Collector) hungFile(program string) string {
	if c.opts.StateFile == "" || program == "nvidia-smi" {
		return c.opts.StateFile
	}
	return filepath.Join(filepath.Dir(c.opts.StateFile), program+".json")
}

// noteHung records a program that could not be killed.
func (c *Collector) noteHung(s *snapshot.Snapshot, program string, r run) {
	if r.hung == 0 {
		return
	}
	_, started, _ := ProcStat(c.opts.Roots.Proc, r.hung)
	h := &hungProcess{PID: r.hung, Started: started, BootID: bootID(c.opts.Roots.Proc),
		Since: c.opts.Now().UTC().Format(time.RFC3339)}
	c.stuck[program] = h
	unnoted := ""
	if err := writeHung(c.hungFile(program), *h); err != nil {
		unnoted = " (" + err.Error() + ")"
	}
	report(s, "gpu:hung", "%s (pid %d) did not answer within %s and cannot be ended: the driver is stuck; "+
		"see `dmesg`, and reboot the node%s", program, r.hung, c.opts.SMIBudget, unnoted)
}

// stillHung reports a program that hangs, if it still exists.
func (c *Collector) stillHung(s *snapshot.Snapshot, program string) bool {
	h := c.stuck[program]
	if h == nil {
		h = readHung(c.hungFile(program))
	}
	if h != nil && !h.alive(c.opts.Roots.Proc) {
		h = nil
		_ = os.Remove(c.hungFile(program))
	}
	c.stuck[program] = h
	if h == nil {
		return false
	}
	report(s, "gpu:hung", "%s (pid %d) has hung since %s and cannot be ended; another one is not started "+
		"before it is gone. The driver is stuck: see `dmesg`, and reboot the node", program, h.PID, h.Since)
	return true
}
