package sitegen

import (
	"fmt"
	"os"
	"path/filepath"

	"gpuboard/atomicfile"
	"gpuboard/sitegen/render"
)

// helpFile is where processes that make one generation each keep the help, below
// the state directory. It can be deleted; it is made anew.
const helpFile = "help.gob"

// keptHelp reads the help that an earlier process kept; nil where none is to be
// kept.
func (g *Generator) keptHelp() *render.Kept {
	if !g.opt.Once || g.opt.NoHelp && !g.opt.PublicHelp {
		return nil
	}
	// A program that was replaced has another file, and so has its documentation.
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	// What cannot be read is made anew.
	data, _ := atomicfile.Read(filepath.Join(g.opt.State, helpFile), maxPastBytes)
	return &render.Kept{Program: fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), Data: data}
}

// keepHelp keeps the help for the next process, if it is new.
func (g *Generator) keepHelp(kept *render.Kept) error {
	if kept == nil || !kept.Made {
		return nil
	}
	if _, err := atomicfile.Write(filepath.Join(g.opt.State, helpFile), kept.Data, 0o600); err != nil {
		return fmt.Errorf("keeping the help: %w", err)
	}
	return nil
}
