package collector_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gpuboard/collector"
)

// Which GPUs of this machine could somebody take now? (The GPUs here are those
// of a capture, played by a stand-in for nvidia-smi.)
func Example() {
	nvidiaSMI, clean := standIn("mixed-4x-processes-535.xml")
	defer clean()
	c := collector.New(collector.Options{Host: "node1", NvidiaSMI: nvidiaSMI})
	s, err := c.Collect(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, gpu := range collector.Infos(s) {
		fmt.Printf("%d %s %d of %d MiB, %.0f %%\n", gpu.Index, gpu.Name, *gpu.MemoryUsed, *gpu.MemoryTotal, *gpu.MemoryUsedPercent)
	}
	fmt.Println("available:", collector.Available(s, collector.DefaultMaxUsedPercent, -1))
	fmt.Println("one of them:", collector.Available(s, 50, 1))
	// Output:
	// 0 NVIDIA GeForce RTX 3090 20480 of 24576 MiB, 83 %
	// 1 NVIDIA GeForce RTX 3090 11000 of 24576 MiB, 45 %
	// 2 NVIDIA GeForce RTX 3090 812 of 24576 MiB, 3 %
	// 3 NVIDIA GeForce RTX 3090 6000 of 24576 MiB, 24 %
	// available: [2]
	// one of them: [1]
}

// standIn gives the test binary, which plays nvidia-smi when it is called so,
// that name.
func standIn(capture string) (program string, clean func()) {
	dir, err := os.MkdirTemp("", "gpuboard-example-")
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "nvidia-smi")
	if err := os.Symlink(self, program); err != nil {
		panic(err)
	}
	full, err := filepath.Abs(filepath.Join("nvidiasmi", "testdata", capture))
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("GPUBOARD_FAKE_SMI", full); err != nil {
		panic(err)
	}
	return program, func() {
		_ = os.Unsetenv("GPUBOARD_FAKE_SMI")
		_ = os.RemoveAll(dir)
	}
}
