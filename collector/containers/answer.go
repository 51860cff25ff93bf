package containers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"gpuboard/internal/snapshot"
)

// labels are what the answer about a container has behind its id and its names, in this order.
func labels() []string {
	return []string{
		"gpuboard.user", "hub.jupyter.org/username",
		"com.docker.compose.project.working_dir", "devcontainer.local_folder",
		"io.kubernetes.pod.namespace", "io.kubernetes.pod.name",
	}
}

// Args make docker, podman and nerdctl write their running containers: an array of texts a line. Each label is
// asked for by its name, because in the list of all labels a comma in one makes another. Podman of before 5
// cannot do that, but has the list as a map.
func Args() []string {
	texts := []string{"{{json .ID}}", "{{json .Names}}"}
	for _, label := range labels() {
		texts = append(texts, fmt.Sprintf(`{{if eq (printf "%%T" .Labels) "string"}}`+
			`{{json (.Label %[1]q)}}{{else}}{{json (index .Labels %[1]q)}}{{end}}`, label))
	}
	return []string{"ps", "--no-trunc", "--format", "[" + strings.Join(texts, ",") + "]"}
}

// Parse adds the containers of an engine's answer to [Args]. An answer that is in part something else is an error.
// Containers whose id is none that a cgroup can have, such as those of ctr, are left out.
func Parse(answer []byte, all map[string]Container) error {
	for line := range bytes.Lines(answer) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var texts []string
		if err := json.Unmarshal(line, &texts); err != nil || len(texts) != 2+len(labels()) {
			return fmt.Errorf("it does not say what it was asked: %s", snapshot.Text(string(bytes.TrimSpace(line)), 80))
		}
		if id := texts[0]; len(id) == 64 && isID(id[:idDigits]) {
			all[id[:idDigits]] = newContainer(texts)
		}
	}
	return nil
}

// newContainer makes a container of the texts of one line.
func newContainer(texts []string) Container {
	c := Container{User: cmp.Or(texts[2:4]...), Folder: cmp.Or(texts[4:6]...)}
	for name := range strings.SplitSeq(texts[1], ",") {
		if !strings.Contains(name, "/") { // docker adds its names in others: other/alias
			c.Name = name
		}
	}
	if texts[6] != "" && texts[7] != "" {
		c.Pod = texts[6] + "/" + texts[7]
	}
	return c.clean()
}
