package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"gpuboard/collector"
	"gpuboard/collector/hostinfo"
	"gpuboard/internal/snapshot"
)

// WriteMachine makes up a machine in a directory: its /proc and /etc, and scripts in the places of nvidia-smi, ps
// and journalctl. A collector with the options of [Fleet.Machine] finds this snapshot there.
func WriteMachine(dir string, s *snapshot.Snapshot) error {
	text := render("machine.txtar", s, template.FuncMap{
		"elapsed": func(p snapshot.Process) int64 { return int64(s.CollectedAt.Sub(p.StartedAt.Time) / time.Second) },
		"free":    func(total, used int64) int64 { return (total - used) << 10 },
		"bytes":   func(mib int64) int64 { return mib << 20 },
		"micro":   func(watts float64) int64 { return int64(math.Round(watts * 1e6)) },
		// as KFD writes it: the bus is the second number of the address
		"location": func(bus string) (int64, error) {
			n, err := strconv.ParseInt(strings.Split(bus, ":")[1], 16, 32)
			return n << 8, err
		},
		"number": func(gpu int) int { return 4711 + gpu },
	})
	for _, f := range txtar.Parse(text).Files {
		path := filepath.Join(dir, f.Name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, f.Data) {
			continue // a script cannot be started while anybody writes it
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path+".new", f.Data, 0o755)
		}
		if err == nil { // the collector may be reading the one before
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			return fmt.Errorf("making up the machine %s: %w", s.Host, err)
		}
	}
	return endProcesses(dir, s)
}

// endProcesses takes those that have ended from the list of AMD's driver, each in one step.
func endProcesses(dir string, s *snapshot.Snapshot) error {
	list := filepath.Join(dir, "sys/class/kfd/kfd/proc")
	entries, err := os.ReadDir(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		pid, notOne := strconv.Atoi(e.Name())
		alive := slices.ContainsFunc(s.Processes, func(p snapshot.Process) bool { return p.PID == pid })
		if ended := filepath.Join(dir, "ended"); err == nil && notOne == nil && !alive {
			err = errors.Join(os.Rename(filepath.Join(list, e.Name()), ended), os.RemoveAll(ended))
		}
	}
	if err != nil {
		return fmt.Errorf("ending processes of the machine %s: %w", s.Host, err)
	}
	return nil
}

// Machine changes the options of a collector so that it reads the machine that was made for its host in a directory.
func (f *Fleet) Machine(dir string, o *collector.Options) {
	if f.machine(o.Host) == nil { // it is this machine
		return
	}
	node := func() snapshot.Node { return f.Snapshot(o.Host, o.Now()).Node }
	o.Pulled = f.machine(o.Host).pulled
	o.NvidiaSMI, o.AMDSMI, o.PS = filepath.Join(dir, "nvidia-smi"), "", filepath.Join(dir, "ps")
	o.Journal = filepath.Join(dir, "journalctl")
	o.Kmsg = filepath.Join(dir, "proc/kmsg") // which it has not, so that the journal is asked
	o.Roots = hostinfo.Roots{
		Proc: filepath.Join(dir, "proc"), Etc: filepath.Join(dir, "etc"), Sys: filepath.Join(dir, "sys"),
		Dev: filepath.Join(dir, "dev"),
		Usage: func(mount string) (total, used int64, err error) {
			for _, d := range node().Disks {
				if d.Mount == mount {
					return d.Total, d.Used, nil
				}
			}
			return 0, 0, os.ErrNotExist
		},
		Interfaces: func() ([]snapshot.Interface, error) { return node().Interfaces, nil },
	}
}
