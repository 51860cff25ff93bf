package data

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

var (
	metricsName   = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	metricsSample = regexp.MustCompile(`^([a-z_][a-z0-9_]*)(\{(.*)\})? (\S+)$`)
)

// metricsParse reads Prometheus text 0.0.4 as strictly as a scrape does and a
// little more: HELP, then TYPE, then the samples of each family together,
// families in order, no timestamps, no label set twice.
func metricsParse(t testing.TB, text string) map[string]float64 {
	t.Helper()
	if !strings.HasSuffix(text, "\n") {
		t.Fatal("the last line is not ended")
	}
	samples := map[string]float64{}
	family, last, typed := "", "", false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, help, ok := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			if !ok || help == "" || !metricsName.MatchString(name) || name <= last {
				t.Fatalf("line %d: %q after %q", i+1, line, last)
			}
			family, last, typed = name, name, false
		case strings.HasPrefix(line, "# TYPE "):
			if line != "# TYPE "+family+" gauge" || typed {
				t.Fatalf("line %d: %q in family %q", i+1, line, family)
			}
			typed = true
		default:
			m := metricsSample.FindStringSubmatch(line)
			if m == nil || m[1] != family || !typed {
				t.Fatalf("line %d: %q in family %q", i+1, line, family)
			}
			value, err := strconv.ParseFloat(m[4], 64)
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			key := m[1] + metricsLabels(t, i+1, m[3])
			if _, twice := samples[key]; twice {
				t.Fatalf("line %d: %s for the second time", i+1, key)
			}
			samples[key] = value
		}
	}
	return samples
}

// metricsLabels reads name="value",… and returns it with the escapes resolved.
func metricsLabels(t testing.TB, line int, s string) string {
	var out strings.Builder
	for s != "" {
		name, rest, ok := strings.Cut(s, `="`)
		if !ok || !metricsName.MatchString(name) {
			t.Fatalf("line %d: label at %q", line, s)
		}
		var value strings.Builder
		for {
			if rest == "" {
				t.Fatalf("line %d: %s is not closed", line, name)
			}
			c := rest[0]
			rest = rest[1:]
			if c == '"' {
				break
			}
			if c == '\\' {
				switch {
				case strings.HasPrefix(rest, `\`), strings.HasPrefix(rest, `"`):
					c = rest[0]
				case strings.HasPrefix(rest, "n"):
					c = '\n'
				default:
					t.Fatalf("line %d: escape at %q", line, rest)
				}
				rest = rest[1:]
			}
			value.WriteByte(c)
		}
		if !utf8.ValidString(value.String()) {
			t.Fatalf("line %d: not UTF-8", line)
		}
		fmt.Fprintf(&out, "{%s=%s}", name, value.String())
		s = strings.TrimPrefix(rest, ",")
		if rest != "" && s == rest {
			t.Fatalf("line %d: no comma at %q", line, rest)
		}
	}
	return out.String()
}

func TestMetrics(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Hosts[5].GPUs[0].UtilizationGPU = new(50) // of fornax, when it was last heard of
	in.Board.Hosts[0].GPUs[1].PCIeWidth, in.Board.Hosts[0].GPUs[1].PCIeWidthMax = new(8), new(16)
	in.Board.Hosts[0].GPUs[1].XID = &snapshot.XID{Code: 79, At: snapshot.TimeOf(boardtest.Now)}
	text := string(apiData(t, in)["metrics.txt"])
	got := metricsParse(t, text)
	for key, want := range map[string]float64{
		"gpuboard_build_timestamp_seconds":                              float64(boardtest.Now.Unix()),
		"gpuboard_snapshot_timestamp_seconds{host=atlas}":               float64(boardtest.Now.Unix() - 12),
		"gpuboard_gpus{state=free}":                                     5,
		"gpuboard_slices{state=free}":                                   1,
		"gpuboard_slices_free{model=A100 1g.5gb}":                       1,
		"gpuboard_slices_known{model=A100 1g.5gb}":                      1,
		"gpuboard_gpus{state=stuck}":                                    1,
		"gpuboard_hosts{state=stale}":                                   2,
		"gpuboard_gpus_free{model=H100}":                                2,
		"gpuboard_gpu_utilization_ratio{host=atlas}{gpu=0}":             0.97,
		"gpuboard_gpu_memory_used_bytes{host=atlas}{gpu=0}":             72900 << 20,
		"gpuboard_gpu_state{host=atlas}{gpu=3}{state=contested}":        1,
		"gpuboard_gpu_booked{host=ceres}{gpu=3}":                        1,
		"gpuboard_gpu_booked{host=ceres}{gpu=0}":                        0,
		"gpuboard_gpu_idle_seconds{host=atlas}{gpu=7}":                  19 * 3600,
		"gpuboard_gpu_processes{host=atlas}{gpu=2}":                     3,
		"gpuboard_gpu_xid_timestamp_seconds{host=atlas}{gpu=1}{xid=79}": float64(boardtest.Now.Unix()),
		"gpuboard_gpu_pcie_lanes{host=atlas}{gpu=1}":                    8,
		"gpuboard_gpu_pcie_lanes_max{host=atlas}{gpu=1}":                16,
		"gpuboard_problems{code=smi:unheard}":                           1,
		"gpuboard_user_gpus_reserved{user=ada}":                         2,
		"gpuboard_slice_state{host=ceres}{gpu=2}{slice=0}{state=busy}":  1,
		"gpuboard_slice_memory_used_bytes{host=ceres}{gpu=2}{slice=0}":  15012 << 20,
		"gpuboard_slice_processes{host=ceres}{gpu=2}{slice=1}":          1,
		"gpuboard_slice_processes{host=ceres}{gpu=2}{slice=2}":          0,
		"gpuboard_slice_idle_seconds{host=ceres}{gpu=2}{slice=0}":       0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", key, v, ok, want)
		}
	}
	for _, absent := range []string{
		"gpuboard_snapshot_timestamp_seconds{host=icarus}",   // never heard of
		"gpuboard_gpu_utilization_ratio{host=fornax}{gpu=0}", // stale: what was is not what is
		"gpuboard_gpu_utilization_ratio{host=ceres}{gpu=2}",  // [N/A] under MIG
		"gpuboard_gpu_memory_used_bytes{host=europa}{gpu=2}", // lost
	} {
		if v, ok := got[absent]; ok {
			t.Errorf("%s is %v; it is not known", absent, v)
		}
	}
	for _, private := range []string{"48112", "train.py"} {
		if strings.Contains(text, private) {
			t.Errorf("%s is in the metrics", private)
		}
	}
}

// Two GPUs of one index and two users of one name would void the whole scrape.
func TestMetricsStayUnique(t *testing.T) {
	in := boardtest.Hostile(boardtest.Lab(), boardtest.Evil)
	in.Board.Hosts[0].GPUs[1].Index = 0
	in.Board.Users = append(in.Board.Users, board.User{Name: `quo"te\`})
	got := metricsParse(t, string(apiData(t, in)["metrics.txt"]))
	if _, ok := got[`gpuboard_user_gpus_used{user=quo"te\}`]; !ok {
		t.Error("a name with a quote and a backslash does not come back")
	}
	metricsParse(t, string(apiData(t, render.Input{Board: &board.Board{}})["metrics.txt"]))
}
