package collector

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/collector/kernellog"
	"gpuboard/internal/snapshot"
)

// kmsgLine is a record of the kernel that is so many seconds old.
func kmsgLine(t *testing.T, age time.Duration, bus string, code int) string {
	t.Helper()
	up, ok := kernelClock()
	if !ok {
		t.Skip("this system has no clock of the kernel's log")
	}
	return fmt.Sprintf("3,1,%d,-;NVRM: Xid (PCI:%s): %d, pid=7, name=CANARY, x\n", (up - age).Microseconds(), bus, code)
}

func TestTheLastErrorOfAGPU(t *testing.T) {
	kmsg := filepath.Join(t.TempDir(), "kmsg")
	add := func(lines ...string) {
		t.Helper()
		f, err := os.OpenFile(kmsg, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.WriteString(strings.Join(lines, ""))
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	opts := Options{NvidiaSMI: fake(t, "nvidia-smi"), Kmsg: kmsg}
	first := collect(t, New(opts))
	if has(first, "gpu:xid") || first.GPUs[0].XID != nil {
		t.Errorf("without a log: %s, %+v", problems(first), first.GPUs[0].XID)
	}
	bus := func(i int) string {
		b := first.GPUs[i].PCIBusID
		return b[4:strings.LastIndexByte(b, '.')]
	}
	add(kmsgLine(t, 3*time.Second, bus(0), 31), kmsgLine(t, 2*time.Second, bus(1), 79),
		kmsgLine(t, time.Second, bus(1), 45), kmsgLine(t, time.Second, "00ff:ff:1f", 79))
	c := New(opts)
	s := collect(t, c)
	xid := func(i, code int) {
		t.Helper()
		x := s.GPUs[i].XID
		if code == 0 != (x == nil) || x != nil &&
			(x.Code != code || time.Since(x.At.Time) > time.Minute || x.At.After(time.Now())) {
			t.Errorf("GPU %d: %+v, want %d", i, x, code)
		}
	}
	xid(0, 31)
	xid(1, 79)
	xid(2, 0)
	var told []string
	for _, p := range s.Errors {
		if p.Code == "gpu:xid" {
			place := "no GPU"
			if p.GPU != nil {
				place = fmt.Sprint("GPU ", *p.GPU)
			}
			told = append(told, place)
			if !strings.Contains(p.Message, "XID 79") || strings.Contains(p.Message, "CANARY") {
				t.Error(p.Message)
			}
		}
	}
	if got := strings.Join(told, ", "); got != "GPU 1, no GPU" && got != "no GPU, GPU 1" {
		t.Errorf("problems are of %s", got)
	}
	add(kmsgLine(t, 0, bus(2), 13))
	s = collect(t, c)
	xid(0, 31)
	xid(1, 79)
	xid(2, 13)
}

// The kernel and nvidia-smi spell the address of one GPU differently.
func TestAnErrorFindsItsGPU(t *testing.T) {
	for kernel, driver := range map[string]string{"0000:91:00": "00000000:91:00.0", "10000:9B:00": "00010000:9b:00.0",
		"0001:a1:00": "0001:A1:00.0"} {
		c := New(Options{})
		s := &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(at(0)), GPUs: []snapshot.GPU{{PCIBusID: driver}}}
		c.addXIDs(s, []kernellog.Event{{Bus: kernel, Code: 31, At: at(0)}})
		if s.GPUs[0].XID == nil || s.GPUs[0].XID.Code != 31 {
			t.Errorf("%s is not %s", kernel, driver)
		}
	}
}

// A day later the error is still there, and a problem no more.
func TestAnErrorIsAProblemForADay(t *testing.T) {
	c := New(Options{})
	c.xids.Add(kernellog.Event{Bus: "0000:01:00", Code: 79, At: at(0)})
	for age, problem := range map[time.Duration]bool{23 * time.Hour: true, 25 * time.Hour: false} {
		s := &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(at(0).Add(age)),
			GPUs: []snapshot.GPU{{PCIBusID: "00000000:01:00.0"}, {PCIBusID: ""}}}
		c.addXIDs(s, nil)
		if has(s, "gpu:xid") != problem || s.GPUs[0].XID == nil || s.GPUs[0].XID.Code != 79 || s.GPUs[1].XID != nil {
			t.Errorf("after %s: %s %+v", age, problems(s), s.GPUs[0].XID)
		}
	}
}

// The journal is asked where /dev/kmsg cannot be read, and every few minutes.
func TestJournalIsReadAtIntervals(t *testing.T) {
	dir := t.TempDir()
	journal, log := filepath.Join(dir, "journalctl"), filepath.Join(dir, "log")
	script := "#!/bin/sh\necho \"$*\" >>" + log + "\n" +
		`echo '{"__REALTIME_TIMESTAMP":"1795150790000000","MESSAGE":"NVRM: Xid (PCI:0000:91:00): 79, x"}'` + "\n"
	if err := os.WriteFile(journal, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	asked := func() []string {
		text, _ := os.ReadFile(log)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	c := New(Options{Kmsg: filepath.Join(dir, "none"), Journal: journal})
	now := time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	if found := c.kernelLogEvents(context.Background(), now); len(found) != 1 || found[0].Code != 79 {
		t.Fatalf("%+v", found)
	}
	if found := c.kernelLogEvents(context.Background(), now.Add(20*time.Second)); found != nil || len(asked()) != 1 {
		t.Errorf("%+v, asked %q", found, asked())
	}
	c.kernelLogEvents(context.Background(), now.Add(6*time.Minute))
	if lines := asked(); len(lines) != 2 || strings.Contains(lines[0], "--since") ||
		!strings.Contains(lines[1], fmt.Sprintf("--since=@%d ", now.Add(-time.Minute).Unix())) {
		t.Errorf("asked %q", lines)
	}
	for name, opts := range map[string]Options{"none": {Kmsg: "/none"}, "missing": {Kmsg: "/none", Journal: "/none"},
		"failing": {Kmsg: "/none", Journal: "/bin/false"}} {
		if found := New(opts).kernelLogEvents(context.Background(), now); found != nil {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// The kernel's own log, if this account may read it: all of it is read, none of
// it waits for more, and what was read does not come again.
func TestTheRealKernelLog(t *testing.T) {
	f := openKmsg("/dev/kmsg")
	if f == nil {
		t.Skip("/dev/kmsg cannot be read here")
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	n := 0
	for {
		got, err := records{f}.Read(buf)
		if err != nil {
			break
		}
		if n++; !strings.Contains(string(buf[:got]), ";") {
			t.Fatalf("it is no record: %q", buf[:got])
		}
	}
	if n == 0 {
		t.Skip("the kernel's log is empty here")
	}
	if terminal := openKmsg("/dev/tty"); terminal != nil {
		t.Error("a terminal was opened")
	}
}
