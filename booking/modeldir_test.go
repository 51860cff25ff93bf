package booking

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
)

// A modelDir is a directory in memory: names lead to files, and whoever has a
// file open keeps it. Before each request, and between the two of an exchange,
// the hook may be somebody else, or kill the one who asks.
type modelDir struct {
	files  map[string]*modelFile
	hook   func(step int)
	step   int
	away   *modelFile // what was last taken away
	swaps  bool       // an exchange of two names is one step, as on this machine
	moves  bool       // a plain rename instead of a second name, as on servers that grant no links
	locked bool       // files of other people cannot be linked to, as with fs.protected_hardlinks
}

type modelFile struct {
	data   []byte
	theirs bool // another account owns it
	gone   bool // a person saved another one over it, or deleted it
}

func (d *modelDir) before() {
	d.step++
	if d.hook != nil {
		d.hook(d.step)
	}
}

func (d *modelDir) Names(context.Context) ([]string, error) {
	d.before()
	return slices.Collect(maps.Keys(d.files)), nil
}

func (d *modelDir) Read(_ context.Context, name string) ([]byte, fs.FileInfo, error) {
	d.before()
	f := d.files[name]
	if f == nil {
		return nil, nil, fs.ErrNotExist
	}
	return append([]byte{}, f.data...), nil, nil
}

func (d *modelDir) Stage(_ context.Context, name string, data []byte, _ fs.FileInfo) error {
	d.before()
	d.files[name] = &modelFile{data: bytes.Clone(data)}
	return nil
}

func (d *modelDir) Exchange(_ context.Context, name, taken, staged string) (took, put error) {
	d.before()
	if d.swaps {
		d.files[taken] = d.files[staged]
		delete(d.files, staged)
		d.before()
		if d.files[name] == nil {
			d.files[staged] = d.files[taken]
			delete(d.files, taken)
			return fs.ErrNotExist, fs.ErrNotExist
		}
		d.files[name], d.files[taken] = d.files[taken], d.files[name]
		return nil, nil
	}
	if d.files[taken] != nil {
		panic("the name for what is taken is in use")
	}
	if d.files[name] == nil {
		took = fs.ErrNotExist
	} else {
		d.away = d.files[name]
		d.files[taken] = d.files[name]
		delete(d.files, name)
	}
	d.before()
	return took, d.put(staged, name)
}

func (d *modelDir) Link(_ context.Context, from, to string) error {
	d.before()
	switch f := d.files[from]; {
	case d.moves:
		return errors.ErrUnsupported
	case f == nil:
		return fs.ErrNotExist
	case d.locked && f.theirs:
		return fs.ErrPermission
	case d.files[to] != nil:
		return fs.ErrExist
	default:
		d.files[to] = f
	}
	return nil
}

func (d *modelDir) Put(_ context.Context, from, to string) error {
	d.before()
	return d.put(from, to)
}

func (d *modelDir) put(from, to string) error {
	switch {
	case d.files[from] == nil:
		return fs.ErrNotExist
	case d.files[to] != nil:
		return fs.ErrExist
	case d.locked && d.files[from].theirs:
		return fs.ErrPermission
	}
	d.files[to] = d.files[from]
	if d.moves {
		delete(d.files, from)
	}
	return nil
}

func (d *modelDir) Rename(_ context.Context, from, to string) error {
	d.before()
	if d.files[from] == nil {
		return fs.ErrNotExist
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *modelDir) Remove(_ context.Context, name string) error {
	d.before()
	delete(d.files, name)
	return nil
}
