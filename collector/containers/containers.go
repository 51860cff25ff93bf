// Package containers knows what docker, podman and nerdctl say of the containers of this node: how to ask them,
// and the file in which root keeps their answers for the collector, which may not ask them itself.
package containers

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// Path is where root keeps the file, and where the collector looks for it.
const Path = "/run/gpuboard/containers.json"

const (
	// MaxBytes limits the file, and one answer of an engine.
	MaxBytes = 1 << 20
	// idDigits is how much of an id a snapshot has.
	idDigits = 12
)

// A Container is what its engine says of one container. "" is what it does not say.
type Container struct {
	Name string `json:"name,omitempty"`
	// User is who the labels say uses it: gpuboard.user, else hub.jupyter.org/username.
	User string `json:"user,omitempty"`
	// Folder is the directory that compose or a devcontainer was started in.
	Folder string `json:"folder,omitempty"`
	// Pod is its pod in Kubernetes: namespace/name.
	Pod string `json:"pod,omitempty"`
}

// A File is the answers of all engines at one time, by the ids that a snapshot has.
type File struct {
	At         time.Time            `json:"at"`
	Containers map[string]Container `json:"containers"`
}

// Cron is the line of root's cron that writes the file each minute.
func Cron(program string) string {
	line := shell.Quote("* * * * * root " + program + " containers >/dev/null")
	return "echo " + line + " | sudo tee /etc/cron.d/gpuboard-containers"
}

// Read reads the file that root writes. A file that another account could have written is an error.
func Read(path string) (File, error) { return readOf(path, 0) }

// readOf reads a file that belongs to owner, and that nobody else can write.
func readOf(path string, owner uint32) (file File, err error) {
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
	if !ok || stat.Uid != owner || info.Mode().Perm()&0o022 != 0 || !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("reading %s: it is no file that root alone can write", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", path, err)
	}

	for id, c := range file.Containers {
		file.Containers[id] = c.clean()
		if !isID(id) {
			delete(file.Containers, id)
		}
	}
	return file, nil
}

func isID(text string) bool {
	return len(text) == idDigits && strings.Trim(text, "0123456789abcdef") == ""
}

// clean removes texts of another shape than they have: half of a name is another one.
func (c Container) clean() Container {
	for shape, text := range map[string]*string{"container name": &c.Name, "login": &c.User, "pod": &c.Pod} {
		if !snapshot.Fits(shape, *text) {
			*text = ""
		}
	}
	if snapshot.Text(c.Folder, snapshot.MaxTextBytes) != c.Folder {
		c.Folder = ""
	}
	return c
}
