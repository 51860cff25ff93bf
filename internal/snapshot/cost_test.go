package snapshot

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestListsOfNothing: what is small to send and large to keep is refused before it is read.
func TestListsOfNothing(t *testing.T) {
	for _, value := range []string{"{}", "null", "[{}]"} {
		list := "[" + strings.Repeat(value+",", 1000) + value + "]"
		snap := strings.Replace(forgedSnap, `"processes":[]`, `"processes":`+list, 1)
		if _, err := DecodeBundle(bytes.NewReader(forge(forgedHead, snap, "[]"))); CodeOf(err) != BadTooLarge {
			t.Errorf("1,001 processes %s: %v", value, err)
		}
		if _, _, err := DecodeSamples([]byte(list)); CodeOf(err) != BadTooLarge {
			t.Errorf("1,001 blocks of samples %s: %v", value, err)
		}
	}
	for n, want := range map[int]string{32_768: "", 32_769: BadTooLarge} {
		padded := "[{}" + strings.Repeat(",{}"+strings.Repeat(" ", MinObjectBytes), n-1) + "]"
		if err := ofNode().Check([]byte(padded)); CodeOf(err) != want {
			t.Errorf("%d objects far apart: %v", n, err)
		}
	}
	if err := ofNode().Check(
		[]byte(
			`{"n":"` + strings.Repeat("{null", 1000) + `","columns":[[null` + strings.Repeat(",null", 1000) +
				`]]}`)); err != nil {
		t.Errorf("a text and a column: %v", err)
	}
	if err := ofNode().Check([]byte(`{"n":"\"` + strings.Repeat("{null", 1000) + `"}`)); err != nil {
		t.Errorf("a text that begins with a quote: %v", err)
	}
}

// TestAllThatANodeMayHaveIsRead: a node with as much of everything as there may be, and as
// little to say of each, has no more objects than a document may have.
func TestAllThatANodeMayHaveIsRead(t *testing.T) {
	b := fleetBundle(1, 1)
	s := b.Snapshot
	s.GPUs, s.Processes, s.Errors = nil, nil, nil
	for i := range MaxGPUs {
		s.GPUs = append(s.GPUs, GPU{Index: i, Health: HealthOK, MIGDevices: make([]MIGDevice, MaxMIGDevices)})
	}
	for i := range MaxProcesses {
		s.Processes = append(s.Processes, Process{PID: i, Children: []Child{{PID: 1}, {PID: 2}, {PID: 3}}})
	}
	s.Errors, s.Node.Disks = make([]Problem, MaxErrors), make([]Disk, MaxDisks)
	s.Node.DiskUsers, s.Node.Interfaces = make([]DiskUser, MaxDiskUsers), make([]Interface, MaxInterfaces)
	unknown := make([]GPUSample, MaxGPUs)
	for i := range 180 { // each in a block of its own: the driver answers every other time
		b.Samples = append(b.Samples,
			Sample{Seq: b.Samples[len(b.Samples)-1].Seq + 1, At: b.Samples[0].At, GPUs: unknown[:i%2*MaxGPUs]})
	}
	s.Seq = b.Samples[len(b.Samples)-1].Seq
	data, err := EncodeBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeBundle(bytes.NewReader(data)); err != nil || len(got.Snapshot.Processes) != MaxProcesses {
		t.Errorf("a full node is refused: %v", err)
	}
}

// TestASampleThatNobodyReadsIsNotWritten: a reader would refuse all of the file.
func TestASampleThatNobodyReadsIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(*Sample){
		"no time":               func(s *Sample) { s.At = time.Time{} },
		"a year beyond":         func(s *Sample) { s.At = s.At.AddDate(7000, 0, 0) },
		"a number out of range": func(s *Sample) { s.Seq = maxSeq + 1 },
	} {
		b := fleetBundle(1, 2)
		change(&b.Samples[1])
		if data, err := EncodeSamples(b.Samples); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}
