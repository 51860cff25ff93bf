package demo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
	return nil
}

// Machine changes the options of a collector so that it reads the machine that was made for its host in a directory.
func (f *Fleet) Machine(dir string, o *collector.Options) {
	if f.machine(o.Host) == nil { // it is this machine
		return
	}
	node := func() snapshot.Node { return f.Snapshot(o.Host, o.Now()).Node }
	o.NvidiaSMI, o.PS = filepath.Join(dir, "nvidia-smi"), filepath.Join(dir, "ps")
	o.Journal = filepath.Join(dir, "journalctl")
	o.Kmsg = filepath.Join(dir, "proc/kmsg") // which it has not, so that the journal is asked
	o.Roots = hostinfo.Roots{
		Proc: filepath.Join(dir, "proc"), Etc: filepath.Join(dir, "etc"),
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
