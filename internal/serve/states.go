package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"gpuboard/sitegen/render"
)

// monitorStatus is the answer to /get-status, which exists where the setting compat names gpu-cluster-monitor. Its
// clients send a POST with a password. That password is not checked: a private site asks for a login of its own.
const monitorStatus = "get-status/index.json"

// maxStates bounds a file whose lists are to be cut.
const maxStates = 64 << 20

func (s *server) readStates(name string) (hosts map[string]map[string]json.RawMessage, err error) {
	f, _, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = json.NewDecoder(io.LimitReader(f, maxStates)).Decode(&hosts)
	return hosts, err
}

// states answers states/…?fetch_num=N with the newest N points of each host, if asked.
func (s *server) states(w http.ResponseWriter, r *http.Request, name string) bool {
	if path.Base(name) != "index.json" || !strings.HasPrefix(name, "states/") || !r.URL.Query().Has("fetch_num") {
		return false
	}
	n, err := strconv.Atoi(r.URL.Query().Get("fetch_num"))
	if err != nil || n < 1 {
		http.Error(w, "fetch_num is a number from 1 on", http.StatusBadRequest)
		return true
	}
	hosts, err := s.readStates(name)
	if err != nil {
		return false // the file is sent as it is, or said to be missing
	}
	for name, host := range hosts {
		if n > 1 {
			if all, err := s.readStates("states/" + name + "/samples.json"); err == nil && all[name] != nil {
				host, hosts[name] = all[name], all[name]
			}
		}
		var points []json.RawMessage
		if json.Unmarshal(host["data"], &points) != nil || len(points) <= n {
			continue
		}
		host["data"], _ = json.Marshal(points[len(points)-n:]) // it was read as JSON, so it can be written
	}
	body, _ := json.Marshal(hosts)
	h := w.Header()
	h.Set("Content-Type", render.ContentType("index.json"))
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // the client may have disconnected
	}
	return true
}
