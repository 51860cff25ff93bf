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

// Parse returns the containers of an engine's answer to [Args]. An answer that is in part something else is an
// error. Containers whose id is none that a cgroup can have, such as those of ctr, are left out.
func Parse(answer []byte) ([]Container, error) {
	var all []Container
	for line := range bytes.Lines(answer) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var texts []string
		if err := json.Unmarshal(line, &texts); err != nil || len(texts) != 2+len(labels()) {
			return nil, fmt.Errorf("it does not say what it was asked: %s", snapshot.Text(string(bytes.TrimSpace(line)), 80))
		}
		if len(texts[0]) != 64 || !isHex(texts[0]) {
			continue
		}
		all = append(all, newContainer(texts))
		if len(all) > MaxContainers {
			return nil, fmt.Errorf("it has more than %d containers", MaxContainers)
		}
	}
	return all, nil
}

// newContainer makes a container of the texts of one line.
func newContainer(texts []string) Container {
	c := Container{ID: texts[0][:idDigits], User: cmp.Or(texts[2:4]...), Folder: cmp.Or(texts[4:6]...)}
	for name := range strings.SplitSeq(texts[1], ",") {
		if !strings.Contains(name, "/") || c.Name == "" { // docker adds its names in others: other/alias
			c.Name = name
		}
	}
	if texts[6] != "" && texts[7] != "" {
		c.Pod = texts[6] + "/" + texts[7]
	}
	c, _ = c.clean()
	return c
}
