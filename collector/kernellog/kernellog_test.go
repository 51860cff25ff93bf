package kernellog

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func at(seconds int) time.Time {
	return time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

// TestParseMessage: the code is read from the left, and nothing after it counts.
func TestParseMessage(t *testing.T) {
	for text, want := range map[string]Event{
		"NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": {Bus: "0000:91:00", Code: 79},
		"NVRM: Xid (0000:03:00): 13, 0001 00000000":                                                    {Bus: "0000:03:00", Code: 13},
		"NVRM: Xid (PCI:0001:A1:00.0): 31, pid=7":                                                      {Bus: "0001:A1:00", Code: 31},
		"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, pid=7, name=x":                                       {Bus: "0000:01:00", Code: 31},
		"NVRM: Xid (PCI:0000:0f:00): 145, RLW_SRC_TRACK, Nonfatal":                                     {Bus: "0000:0f:00", Code: 145},
		"NVRM: Xid (PCI:0000:0f:00): 8":                                                                {Bus: "0000:0f:00", Code: 8},
		`NVRM: Xid (PCI:0000:9b:00): 43, pid=1, name=x\x0aNVRM: Xid (PCI:0000:9c:00): 79, y`:           {Bus: "0000:9b:00", Code: 43},
		"NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (x)":      {Bus: "0000:9b:00", Code: 154},
		"NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x1 (x) to 0x0 (None)":      {},
		"": {}, "NVRM: Xid": {}, "NVRM: Xid (": {}, "NVRM: Xid (PCI:0000:9b:00)": {},
		"NVRM: Xid (PCI:0000:9b:00): ":                            {},
		"NVRM: Xid (PCI:0000:9b:00): x, 79":                       {},
		"NVRM: Xid (PCI:0000:9b:00): 79x":                         {},
		"NVRM: Xid (PCI:0000:9b:00): 0, x":                        {},
		"NVRM: Xid (PCI:0000:9b:00): 123456, x":                   {},
		"NVRM: Xid (PCI:[1234]: segfault at 0":                    {},
		"x NVRM: Xid (PCI:0000:9b:00): 79, x":                     {},
		"nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal": {},
	} {
		got, ok := parseMessage(text)
		if got != want || ok != (want.Code != 0) {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	}
}

// records is a /dev/kmsg: each read gives one record, or an error.
type records []any

func (r *records) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, errors.New("resource temporarily unavailable")
	}
	next := (*r)[0]
	*r = (*r)[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	if len(p) < len(next.(string)) {
		return 0, errors.New("invalid argument")
	}
	return copy(p, next.(string)), nil
}

func TestReadKmsg(t *testing.T) {
	none := errors.New("resource temporarily unavailable")
	log := &records{
		"5,0,0,-;Linux version 6.8\n",
		"3,812,6781741548779,-;NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n SUBSYSTEM=pci\n DEVICE=+pci:0000:91:00.0\n",
		"12,813,6781741548780,-;NVRM: Xid (PCI:0000:92:00): 79, written by a program\n",
		"11,814,6781741548780,-;NVRM: Xid (PCI:0000:93:00): 79, written by a program\n",
		"4,815,6781741548781,-,caller=T77;NVRM: Xid (PCI:0000:94:00): 31, pid=7, name=a;b, x\n",
		"4,816,x,-;NVRM: Xid (PCI:0000:95:00): 31, x\n", "4,816;NVRM: Xid (PCI:0000:95:00): 31, x\n", "x\n", ";\n",
		"6,817,1,-;usb: new\n NVRM: Xid (PCI:0000:96:00): 79, x\n 3,1,1,-;NVRM: Xid (PCI:0000:97:00): 79, x\n",
		"4,818,9781741000000,-;NVRM: Xid (PCI:0000:98:00): 43, by a clock that is ahead\n",
		"6,819,1,-;" + strings.Repeat("x", 9000) + "\n",
		none,
		"4,820,6781742000000,-;NVRM: Xid (PCI:0000:91:00): 45, x\n",
	}
	up := 6781742 * time.Second
	got := fmt.Sprint(ReadKmsg(log, at(0), up))
	want := fmt.Sprint([]Event{
		{"0000:91:00", 79, at(0).Add(-451221 * time.Microsecond)},
		{"0000:94:00", 31, at(0).Add(-451219 * time.Microsecond)},
		{"0000:98:00", 43, at(0)},
	})
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if more := ReadKmsg(log, at(0), up); len(more) != 1 || more[0].Code != 45 {
		t.Errorf("what came later: %v", more)
	}
	if more := ReadKmsg(log, at(0), up); more != nil {
		t.Errorf("nothing came: %v", more)
	}
	endless := &forever{line: []byte("4,1,1,-;" + strings.Repeat("x", 1000) + "\n")}
	if ReadKmsg(endless, at(0), up); endless.read > maxKmsgBytes+recordBytes {
		t.Errorf("%d bytes were read", endless.read)
	}
}

type forever struct {
	line []byte
	read int
}

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.line)
	f.read += n
	return n, nil
}

func TestReadJournal(t *testing.T) {
	bytes := func(s string) string { return strings.ReplaceAll(strings.Trim(fmt.Sprint([]byte(s)), "[]"), " ", ",") }
	out := `{"__REALTIME_TIMESTAMP":"1795150800000000","MESSAGE":"NVRM: Xid (PCI:0000:91:00): 45, later"}
{"__REALTIME_TIMESTAMP":"1795150790000000","MESSAGE":[` +
		bytes("NVRM: Xid (PCI:0000:92:00): 31, pid=7, name=\xff, x") + `]}
{"__REALTIME_TIMESTAMP":"x","MESSAGE":"NVRM: Xid (PCI:0000:93:00): 45, x"}
{"__REALTIME_TIMESTAMP":"1795150780000000","MESSAGE":null,"x":"Xid"}
{"__REALTIME_TIMESTAMP":"1795150780000000","MESSAGE":"usb: Xid"}
{"__REALTIME_TIMESTAMP":"1795150780000000","MESSAGE":"NVRM: Xid (PCI:0000:91:00): 79, earlier"}
garbage Xid
{"__REALTIME_TIMESTAMP":"1795150770000000","MESSAGE":"NVRM: Xid (PCI:0000:9`
	got := fmt.Sprint(ReadJournal([]byte(out)))
	want := fmt.Sprint(
		[]Event{{"0000:91:00", 79, time.UnixMicro(1795150780000000)},
			{"0000:92:00", 31, time.UnixMicro(1795150790000000)}, {"0000:91:00", 45, time.UnixMicro(1795150800000000)}})
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if args := strings.Join(JournalArgs(time.Unix(1795150800, 5)), " "); !strings.Contains(args,
		"--since=@1795150800 ") || !strings.Contains(args, "SYSLOG_FACILITY=0") {
		t.Error(args)
	}
}

func TestTheLastErrorIsTheCause(t *testing.T) {
	for _, c := range []struct {
		name        string
		events      []Event
		last, fatal int
	}{
		{"none", nil, 0, 0},
		{"a program's", []Event{{"g", 31, at(0)}}, 31, 0},
		{"one that breaks the GPU", []Event{{"g", 79, at(0)}}, 79, 79},
		{"its consequences", []Event{{"g", 79, at(0)}, {"g", 154, at(5)}, {"g", 45, at(9)}}, 79, 79},
		{"a consequence of nothing", []Event{{"g", 45, at(0)}}, 45, 0},
		{"a consequence of what is long past", []Event{{"g", 79, at(0)}, {"g", 45, at(3600)}}, 45, 79},
		{"a reset is wanted, later", []Event{{"g", 79, at(0)}, {"g", 154, at(3600)}}, 154, 154},
		{"a program's, after one that breaks the GPU", []Event{{"g", 79, at(0)}, {"g", 13, at(9)}}, 13, 79},
		{"told again", []Event{{"g", 79, at(0)}, {"g", 13, at(9)}, {"g", 79, at(0)}, {"g", 13, at(9)}}, 13, 79},
		{"another GPU's", []Event{{"h", 79, at(0)}}, 0, 0},
	} {
		l := Log{}
		l.Add(c.events...)
		fatal := 0
		if f := l["g"].Fatal; f != nil {
			fatal = f.Code
		}
		if l["g"].Code != c.last || fatal != c.fatal {
			t.Errorf("%s: %d, %d", c.name, l["g"].Code, fatal)
		}
	}
}

// The captures of other people's kernels, made into records again.
func TestRealLogs(t *testing.T) {
	for name, want := range map[string]Event{"xid79-fallen-off-bus-nvswitch.dmesg": {Bus: "0000:91:00", Code: 79},
		"xid119-gsp-timeout.dmesg": {Bus: "0000:9b:00", Code: 119}} {
		text, err := os.ReadFile("../../../shared/fixtures/errors/" + name)
		if err != nil {
			t.Skip(err) // the captures do not belong to the project, and may be elsewhere
		}
		log := &records{}
		stamp := regexp.MustCompile(`^\[([^]]*)\] `)
		for i, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
			*log = append(*log,
				"4,"+strconv.Itoa(i)+","+strconv.Itoa(i*1000000)+",-;"+stamp.ReplaceAllString(line, "")+"\n")
		}
		l := Log{}
		l.Add(ReadKmsg(log, at(0), time.Hour)...)
		if len(l) != 1 || l[want.Bus].Code != want.Code || l[want.Bus].Fatal == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// Whatever a process is called, its name changes neither GPU nor code; and what
// does not begin as the driver begins is nobody's error.
func FuzzMessage(f *testing.F) {
	f.Add("python3")
	f.Add("x, NVRM: Xid (PCI:0000:01:00): 79, y")
	f.Add("\nNVRM: Xid (PCI:0000:01:00): 79, y")
	f.Fuzz(func(t *testing.T, name string) {
		e, ok := parseMessage("NVRM: Xid (PCI:0000:91:00): 31, pid=7, name=" + name + ", Ch 00000008")
		if !ok || e.Bus != "0000:91:00" || e.Code != 31 {
			t.Fatalf("%q: %+v", name, e)
		}
		if e, ok := parseMessage(" " + name); ok {
			t.Fatalf("%q: %+v", name, e)
		}
		ReadJournal([]byte(name))
	})
}
