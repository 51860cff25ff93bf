package snapshot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// fleetBundle is one host of n GPUs with readings as they wander on a busy
// machine, two processes a GPU.
func fleetBundle(gpus, samples int) *Bundle {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	b := &Bundle{Host: "gpu01.example.org", BootID: "0a1b2c3d-1111-4222-8333-444455556666"}
	users := []string{"ann", "bob", "cleo", "dmitri"}
	for i := range samples {
		s := &Snapshot{
			Schema: Schema, Host: b.Host, BootID: b.BootID, Seq: uint64(100 + i),
			CollectedAt: TimeOf(
				start.Add(time.Duration(i)*20*time.Second + time.Duration(rng.IntN(40))*time.Millisecond)),
			Collector: "1.0.0", IntervalSeconds: 20, DriverVersion: "580.105.08", CUDAVersion: "13.0",
			Node: Node{
				UptimeSeconds: ptr(int64(86400 + 20*i)), Cores: ptr(64), Load1: ptr(12.5), Load5: ptr(11.25),
				Load15:      ptr(9.75),
				MemoryTotal: ptr(int64(1031234)), MemoryUsed: ptr(int64(220000 + rng.IntN(500))),
				Disks: []Disk{{Mount: "/", Total: 900000, Used: 123456},
					{Mount: "/data", Total: 7200000, Used: 6543210}},
				Interfaces: []Interface{{Name: "eno1", Addrs: []string{"192.0.2.17", "2001:db8::17"}}},
				Kernel:     "6.8.0-45-generic", OS: "Ubuntu 24.04.1 LTS",
			},
			GPUs: []GPU{}, Processes: []Process{}, Errors: []Problem{},
		}
		for g := range gpus {
			s.GPUs = append(s.GPUs, GPU{
				Index: g,
				UUID: fmt.Sprintf("GPU-%08x-%04x-4444-8888-%012x", uint32(g)*2654435761, g*7919,
					uint64(g+1)*1099511628211%(1<<48)),
				PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x19+g*0x12), Name: "NVIDIA H100 80GB HBM3",
				MemoryTotal: ptr(int64(81559)), MemoryUsed: ptr(int64(70000 + 100*g)),
				MemoryFree: ptr(int64(11559 - 100*g)),
				Readings: Readings{
					UtilizationGPU: ptr(min(100, 85+rng.IntN(20))), UtilizationMemory: ptr(30 + rng.IntN(10)),
					Temperature: ptr(60 + rng.IntN(4)),
					PowerDraw:   ptr(float64(4000+rng.IntN(2500)) / 10), PowerLimit: ptr(700.0), ClockSM: ptr(1980),
					ClockMemory: ptr(2619),
				},
				PState: "P0", ThrottleReasons: []string{"sw_power_cap"}, MIGMode: "disabled", Health: HealthOK,
				ECC: &ECC{Mode: "enabled", CorrectedVolatile: ptr(int64(0)),
					UncorrectedVolatile: ptr(int64(0)), CorrectedAggregate: ptr(int64(2)),
					UncorrectedAggregate: ptr(int64(0))},
				RemappedRows: &Remapped{Correctable: ptr(0), Uncorrectable: ptr(0), Pending: ptr(false),
					Failure: ptr(false)},
			})
			for p := range 2 {
				s.Processes = append(s.Processes, Process{
					GPU: g, GPUUUID: s.GPUs[g].UUID, PID: 4000 + 131*g + 17*p, Type: Compute,
					User: users[(g+p)%len(users)], UID: ptr(int64(1000 + (g+p)%len(users))),
					Program: "train.py", StartedAt: ptr(TimeOf(start.Add(-time.Duration(g*777+p*555) * time.Second))),
					UsedMemory: ptr(int64(30000 + 1000*p)), Alive: ptr(true),
				})
			}
		}
		b.Samples = append(b.Samples, s.Sample())
		b.Snapshot = s
	}
	return b
}

func TestBundleRoundTrip(t *testing.T) {
	for _, size := range []struct{ gpus, samples int }{{0, 1}, {1, 1}, {8, 45}, {64, 45}} {
		want := fleetBundle(size.gpus, size.samples)
		data, err := EncodeBundle(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeBundle(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%d GPUs: %v", size.gpus, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d GPUs, written and read (-want +got):\n%s", size.gpus, diff)
		}
	}
}

func TestBundleIsSmall(t *testing.T) {
	data, err := EncodeBundle(fleetBundle(8, 45))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(data))
	if len(data) > 4<<10 {
		t.Errorf("a bundle of 8 GPUs and 45 samples is %d bytes, want at most 4 KiB", len(data))
	}
}

func BenchmarkEncodeBundle(b *testing.B) {
	bundle := fleetBundle(8, 45)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeBundle(bundle); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeBundle(b *testing.B) {
	data, err := EncodeBundle(fleetBundle(8, 45))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeBundle(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBundleHost(b *testing.B) {
	data, err := EncodeBundle(fleetBundle(8, 45))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if BundleHost(bytes.NewReader(data)) == "" {
			b.Fatal("no bundle")
		}
	}
}

func TestBootIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "b": true, "aAzZ09-": true, strings.Repeat("b", 64): true, strings.Repeat("b", 65): false,
		"a b": false, "../b": false, "a_b": false, "\u00e9": false, "@": false, "[": false, "`": false, "{": false,
		"/": false, ":": false,
	} {
		if ValidBoot(id) != want {
			t.Errorf("a boot id %q: %v", id, !want)
		}
	}
}
