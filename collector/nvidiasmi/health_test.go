package nvidiasmi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// TestMemoryErrors: what the driver says of rows, pages and errors, and what
// that makes of the GPU.
func TestMemoryErrors(t *testing.T) {
	rows := func(unc int, pending, failure string) string {
		return fmt.Sprintf(
			"<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>%d</remapped_row_unc>"+
				"<remapped_row_pending>%s</remapped_row_pending><remapped_row_failure>%s</remapped_row_failure></remapped_rows>", unc, pending, failure)
	}
	ecc := func(volatile, aggregate int, more string) string {
		return fmt.Sprintf("<ecc_errors><volatile><dram_uncorrectable>%d</dram_uncorrectable></volatile>"+
			"<aggregate><dram_uncorrectable>%d</dram_uncorrectable></aggregate>%s</ecc_errors>", volatile, aggregate,
			more)
	}
	page := "<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>"
	for _, c := range []struct {
		name, elements string
		want           snapshot.Health
		code           string // of the only problem
		reason         string
	}{
		{"nothing", ecc(0, 0, "") + rows(0, "No", "No"), snapshot.HealthOK, "", ""},
		{"errors of long ago", ecc(0, 7, "") + rows(3, "No", "No"), snapshot.HealthOK, "", ""},
		{"remapping failed", ecc(0, 0, "") + rows(1, "No", "Yes"), snapshot.HealthError, "gpu:error",
			"row remapping failed"},
		{"errors, nothing pending", ecc(2, 2, "") + rows(1, "No", "No"), snapshot.HealthOK, "gpu:ecc", ""},
		{"errors, and a row", ecc(2, 2, "") + rows(1, "Yes", "No"), snapshot.HealthError, "gpu:error",
			"2 uncorrectable memory errors, and a row is remapped at the next reset"},
		{"a row, errors not told", rows(1, "Yes", "No"), snapshot.HealthError, "gpu:error",
			"1 uncorrectable memory errors, and a row is remapped at the next reset"},
		{"a row for corrected errors", ecc(0, 0, "") + rows(0, "Yes", "No"), snapshot.HealthOK, "", ""},
		{"errors, and a page", ecc(1, 1, "") + page, snapshot.HealthError, "gpu:error",
			"1 uncorrectable memory errors, and a page is retired at the next reset"},
		{"errors, and a page, as of old",
			ecc(1, 1, "") + strings.ReplaceAll(page, "pending_retirement", "pending_blacklist"), snapshot.HealthError,
			"gpu:error", "1 uncorrectable memory errors, and a page is retired at the next reset"},
		{"a page alone", ecc(0, 0, "") + page, snapshot.HealthOK, "", ""},
		{"errors, and a repair", ecc(1, 1, "<channel_repair_pending>Yes</channel_repair_pending>"),
			snapshot.HealthError, "gpu:error", "1 uncorrectable memory errors, and a repair waits for the next reset"},
		{"errors, and an action", ecc(1, 1, "") + "<gpu_recovery_action>Reset</gpu_recovery_action>",
			snapshot.HealthError, "gpu:error", "recovery action: Reset"},
		{"an action, in other words", "<gpu_recovery_action>Reset Required</gpu_recovery_action>", snapshot.HealthError,
			"gpu:error", "recovery action: Reset Required"},
		{"an action that nobody knows", "<gpu_recovery_action>Observe</gpu_recovery_action>", snapshot.HealthOK,
			"smi:unknown-token", ""},
		{"the fan", "<fan_speed>ERR!</fan_speed>", snapshot.HealthOK, "gpu:fan", ""},
		{"the fan, in other words", "<fan_speed>[Unknown Error]</fan_speed>", snapshot.HealthOK, "gpu:fan", ""},
		{"the fan and the temperature",
			"<fan_speed>ERR!</fan_speed><temperature><gpu_temp>ERR!</gpu_temp></temperature>", snapshot.HealthError,
			"gpu:error", "ERR!"},
		{"no fan", "<fan_speed>N/A</fan_speed>", snapshot.HealthOK, "", ""},
	} {
		r := Parse(one(c.elements), nil)
		code := ""
		if len(r.Problems) > 0 {
			code = r.Problems[0].Code
		}
		if g := r.GPUs[0]; g.Health != c.want || g.HealthReason != c.reason || code != c.code || len(r.Problems) > 1 {
			t.Errorf("%s: %s %q, %v", c.name, g.Health, g.HealthReason, r.Problems)
		}
	}
}

// TestExitStatusOfOneGPU: what is beside a document of four healthy GPUs,
// and the health that each of them has then.
func TestExitStatusOfOneGPU(t *testing.T) {
	text := capture(t, "mixed-4x-processes-535.xml")
	for _, c := range []struct {
		exit     int
		beside   string
		want     string // o, l or u for each
		complete bool
	}{
		{0, "", "oooo", true},
		{15, "", "uuuu", false},
		{15, "GPU 00000000:25:00.0 has fallen off the bus\n", "oloo", true},
		{15, "NVRM: GPU at PCI:0000:25:00.0: GPU is lost\n", "oloo", true},
		{15, "GPU GPU-00000022-1111-4222-8333-000000000022 is lost\n", "oloo", true},
		{15, "GPU 1: fallen off the bus\n", "oloo", true},
		{15, "GPU1 has fallen off the bus\nGPU 3 is lost\n", "olol", true},
		{15, "GPU 00000000:99:00.0 has fallen off the bus\n", "uuuu", false},
		{15, "Unable to determine the device handle for GPU 0000:25:00.0: Unknown Error\n", "oloo", true},
		{15, "WARNING: infoROM is corrupted at gpu 0000:25:00.0\n", "uuuu", false},
		{14, "WARNING: infoROM is corrupted at gpu 0000:25:00.0\n", "oooo", true},
		{8, "", "oooo", true}, {10, "", "oooo", true},
		{6, "", "oooo", false}, {3, "", "oooo", false}, {4, "", "oooo", false}, {9, "", "oooo", false},
		{18, "", "oooo", false},
		{255, "", "oooo", false}, {-11, "", "oooo", false},
	} {
		r := Parse(text, []byte(c.beside))
		r.End(c.exit)
		got := ""
		for _, g := range r.GPUs {
			got += string(g.Health[:1])
			if g.Health == snapshot.HealthLost &&
				(g.UtilizationGPU != nil || g.MemoryUsed != nil || g.ProcessesUnknown == "" || g.HealthReason == "") {
				t.Errorf("exit %d, %q: %+v", c.exit, c.beside, g)
			}
		}
		if got != c.want || r.Complete != c.complete {
			t.Errorf("exit %d, %q: %s, complete %v", c.exit, c.beside, got, r.Complete)
		}
	}
	r := Parse([]byte("No devices were found\n"), nil)
	if r.End(6); !r.Complete {
		t.Error("that there are no devices is an answer")
	}
}

// TestFabric: what the driver says of the fabric, and whether somebody has to look.
func TestFabric(t *testing.T) {
	fabric := func(state, status, clique, cluster, health string) string {
		return "<fabric><state>" + state + "</state><status>" + status + "</status><cliqueId>" + clique +
			"</cliqueId><clusterUuid>" + cluster +
			"</clusterUuid><health><summary>" + health + "</summary></health></fabric>"
	}
	const none, cluster = "00000000-0000-0000-0000-000000000000", "00000001-0000-0000-0000-000000000001"
	for _, c := range []struct {
		name, elements string
		want           string // "" for none
		up             bool
	}{
		{"none at all", "", "", true},
		{"a card without switches", fabric("N/A", "N/A", "N/A", "N/A", "N/A"), "", true},
		{"the same, in other words", fabric("Not Supported", "N/A", "0", none, "N/A"), "", true},
		{"in one word", fabric("NotSupported", "Success", "0", none, "N/A"), "", true},
		{"up in one machine", fabric("Completed", "Success", "0", none, "N/A"), "Completed/Success/0/", true},
		{"up in a cluster", fabric("Completed", "Success", "2", cluster, "Healthy"), "Completed/Success/2/" + cluster,
			true},
		{"up, status not told", fabric("Completed", "N/A", "N/A", none, "N/A"), "Completed//-/", true},
		{"coming up", fabric("In Progress", "N/A", "N/A", "N/A", "N/A"), "In Progress//-/", false},
		{"not begun", fabric("Not Started", "N/A", "N/A", "N/A", "N/A"), "Not Started//-/", false},
		{"ended badly", fabric("Completed", "Not in fabric", "0", none, "N/A"), "Completed/Not in fabric/0/", false},
		{"ill", fabric("Completed", "Success", "0", none, "Unhealthy"), "Completed/Success/0/", false},
		{"lost", fabric("GPU is lost", "GPU is lost", "0", none, "N/A"), "", true},
	} {
		r := Parse(one(c.elements), nil)
		got := ""
		if f := r.GPUs[0].Fabric; f != nil {
			clique := "-"
			if f.CliqueID != nil {
				clique = fmt.Sprint(*f.CliqueID)
			}
			got = f.State + "/" + f.Status + "/" + clique + "/" + f.ClusterUUID
		}
		if got != c.want || hasProblem(r, "gpu:fabric") == c.up {
			t.Errorf("%s: %q, want %q; %v", c.name, got, c.want, r.Problems)
		}
	}
}

// TestALostGPUHasNoLiveReadings: what nvidia-smi still prints of a lost GPU is old. Only what
// does not change while the node runs is kept.
func TestALostGPUHasNoLiveReadings(t *testing.T) {
	lasting := []string{"MemoryTotal", "PowerLimit", "PCIeWidthMax", "ECC", "RetiredPages", "RemappedRows", "Fabric",
		"XID"}
	var g snapshot.GPU
	v := reflect.ValueOf(&g).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	markLost(&g, "GPU is lost")
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if f := v.Field(i); f.Kind() == reflect.Pointer && f.IsNil() == slices.Contains(lasting, name) {
			t.Errorf("%s: kept %v; clearReadings removes readings that change", name, !f.IsNil())
		}
	}
}
