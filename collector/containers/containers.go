// Package containers knows what docker, podman and nerdctl say of the containers of this node: how to ask them,
// and the file in which root keeps their answers for the collector, which may not ask them itself.
package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"gpuboard/internal/snapshot"
)

// Path is where root keeps the file, and where the collector looks for it.
const Path = "/run/gpuboard/containers.json"

const (
	// MaxBytes limits the file, and one answer of an engine.
	MaxBytes = 1 << 20
	// MaxContainers limits those of a file.
	MaxContainers = 1024
)

// A Container is what its engine says of one container. "" is what it does not say.
type Container struct {
	// ID is the beginning of its id, as a snapshot has it: 12 hex digits.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// User is who the labels say uses it: gpuboard.user, else hub.jupyter.org/username.
	User string `json:"user,omitempty"`
	// Folder is the directory that compose or a devcontainer was started in.
	Folder string `json:"folder,omitempty"`
	// Pod is its pod in Kubernetes: namespace/name.
	Pod string `json:"pod,omitempty"`
}

// A File is the answers of all engines at one time.
type File struct {
	At         time.Time   `json:"at"`
	Containers []Container `json:"containers"`
}

// Read returns the containers of the file that root writes, by id. Without a file there are none. A file that
// another account could have written is an error.
func Read(path string) (map[string]Container, error) {
	file, err := ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byID := make(map[string]Container, len(file.Containers))
	for _, c := range file.Containers {
		byID[c.ID] = c
	}
	return byID, nil
}

// ReadFile is [Read] with the time of the answers. Without a file the error is [fs.ErrNotExist].
func ReadFile(path string) (File, error) { return readOf(path, 0) }

// readOf reads a file that belongs to owner, and that nobody else can write.
func readOf(path string, owner uint32) (File, error) {
	wrong := func(err error) (File, error) { return File{}, fmt.Errorf("reading %s: %w", path, err) }
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return wrong(errors.New("it is no regular file"))
	case !ok || stat.Uid != owner:
		return wrong(errors.New("it is not root's"))
	case info.Mode().Perm()&0o022 != 0:
		return wrong(errors.New("others than root can write it"))
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return File{}, err
	}
	if len(data) > MaxBytes {
		return wrong(fmt.Errorf("it has more than %d bytes", MaxBytes))
	}

	var file File
	if err := json.Unmarshal(data, &file); err != nil {
		return wrong(err)
	}
	if len(file.Containers) > MaxContainers {
		return wrong(fmt.Errorf("it has more than %d containers", MaxContainers))
	}
	kept := file.Containers[:0]
	for _, c := range file.Containers {
		if c, ok := c.clean(); ok {
			kept = append(kept, c)
		}
	}
	file.Containers = kept
	return file, nil
}

// idDigits is how much of an id a snapshot has.
const idDigits = 12

// clean makes the texts safe. It reports whether the id is one that a snapshot can have. A name is shown, so what
// is odd in it is spelt out; a user and a folder are looked up, and half of one is another one.
func (c Container) clean() (Container, bool) {
	whole := func(text string, most int) string {
		if snapshot.Text(text, most) != text {
			return ""
		}
		return text
	}
	c.Name = snapshot.Text(c.Name, snapshot.MaxNameBytes)
	c.User = whole(c.User, snapshot.MaxNameBytes)
	c.Folder = whole(c.Folder, snapshot.MaxTextBytes)
	c.Pod = snapshot.Text(c.Pod, snapshot.MaxNameBytes)
	return c, len(c.ID) == idDigits && isHex(c.ID)
}

func isHex(text string) bool {
	for _, r := range text {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}
