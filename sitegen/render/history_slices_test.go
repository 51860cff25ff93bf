package render

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// A slice has a chart of its memory under its GPU, up to its own size, and none
// of what is not known of it.
func TestPastOfSlices(t *testing.T) {
	in := remembered(testFleet())
	ceres := &in.Board.Hosts[2]
	ceres.GPUs[2].Slices[0].UUID = "" // of which nothing is kept
	doc := parse(t, fileOf(t, pages(t, in), "hosts/ceres/index.html"))
	var rows []string
	tops := map[string]string{}
	for _, n := range elements(doc) {
		if n.Data == "div" && hasClass(n, "mr") && strings.Contains(textOf(n), "–") {
			rows = append(rows, strings.Fields(textOf(n))[0])
		}
		if n.Data != "svg" || !hasClass(n, "ch") || !strings.HasPrefix(attr(n, "aria-label"), "GPU 2:") {
			continue
		}
		label := attr(n, "aria-label")
		if !strings.Contains(label, ", memory, ") || attr(n, "data-unit") != "GiB" {
			t.Errorf("a chart of a slice: %s", label)
		}
		tops[strings.TrimPrefix(strings.Split(label, ",")[0], "GPU ")] = attr(n, "data-top")
	}
	if !slices.Equal(rows, []string{"2:1", "2:2"}) || len(tops) != 2 || tops["2:1"] != "9.8" || tops["2:2"] != "4.9" {
		t.Errorf("rows of slices %v, with charts up to %v", rows, tops)
	}
	all := string(fileOf(t, pages(t, in), "hosts/ceres/history/index.html").Bytes())
	if !strings.Contains(all, `<th scope="col" class="n">2</th>`) || strings.Contains(all, `<th scope="col" class="n">2:1</th>`) {
		t.Error("the values of utilization have a column of a slice")
	}

	var api struct {
		Spans []struct {
			GPUs []struct {
				Key   string `json:"key"`
				GPU   *int   `json:"gpu"`
				Slice *int   `json:"mig_device"`
			} `json:"gpus"`
		} `json:"spans"`
	}
	if err := json.Unmarshal(apiData(t, in)["api/v1/hosts/ceres/history.json"], &api); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range api.Spans[0].GPUs {
		if g.Key == "MIG-1" && g.GPU != nil && *g.GPU == 2 && g.Slice != nil && *g.Slice == 1 || g.Key == ceres.GPUs[2].UUID && g.GPU != nil && g.Slice == nil {
			found++
		}
	}
	if found != 2 {
		t.Errorf("history.json has %+v", api.Spans[0].GPUs)
	}
}
