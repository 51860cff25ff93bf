package doctor

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"gpuboard/collector/containers"
	"gpuboard/internal/board"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// answersOld is the age of the engines' answers at which root's cron, which asks each minute, seems not to run.
const answersOld = 5 * time.Minute

// engines looks for the answers of docker, podman and nerdctl where most processes on GPUs need them: they run in
// containers, and their accounts do not tell for certain whose they are.
func (d *examination) engines(list []snapshot.Process) {
	unknown := 0
	for i := range list {
		if p := &list[i]; p.Container != "" && p.Owner().Person == "" {
			unknown++
		}
	}
	if 2*unknown <= len(list) {
		return
	}
	program := "gpuboard"
	if path, err := os.Executable(); err == nil {
		program = path
	}
	file, err := containers.Read(d.answers)
	age := d.Node.Now().Sub(file.At)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note("containers:missing", rootsCron(program),
			"%d of %d GPU processes run in containers, and whose they are is not certain: "+
				"`gpuboard containers`, run by root's cron, reads it from labels of docker, podman and nerdctl",
			unknown, len(list))
	case err != nil:
		d.bad("containers:unusable", "sudo rm -r "+shell.Quote(d.answers)+"; sudo "+shell.Quote(program)+" containers",
			"what docker, podman and nerdctl say of containers is not believed: %v", err)
	case age > answersOld:
		d.bad("containers:old", "sudo "+shell.Quote(program)+" containers    (says what is wrong); "+rootsCron(program),
			"what docker, podman and nerdctl say of containers is %v old: root's cron does not ask them",
			age.Round(time.Second))
	default:
		d.ok("containers:ok", "docker, podman and nerdctl have named %s",
			board.Number(len(file.Containers), "container"))
	}
}

// rootsCron is the command that makes root run the program each minute. What others can write, root shall not run.
func rootsCron(program string) string {
	install := ""
	if info, err := os.Stat(program); err == nil {
		if ownerUID(info) != 0 || info.Mode().Perm()&0o022 != 0 {
			const roots = "/usr/local/bin/gpuboard"
			install, program = "sudo install "+shell.Quote(program)+" "+roots+" && ", roots
		}
	}
	return install + containers.Cron(program)
}
