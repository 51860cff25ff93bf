// Package need is what a test says when it takes something that a machine may lack: a program, root, the zones of
// the world.
//
// What is missing skips the test with the reason, and fails it when
// GPUBOARD_REQUIRE_ALL=1 says, as in continuous integration, that all is there.
package need

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is no measure of how
// long that may take: nothing is right or wrong because of it, however slow the
// machine is.
const Patience = 3 * time.Minute

// All says whether nothing may be skipped.
func All() bool { return os.Getenv("GPUBOARD_REQUIRE_ALL") == "1" }

// Skip skips the test for a reason that somebody could mend, or fails it. What
// nobody can mend, such as a feature that the kernel lacks, is for t.Skip.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if All() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Time is for tests that take long, and for what starts real servers: with -short
// they are skipped.
func Time(t testing.TB, why string) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skip("takes long: " + why)
	}
}

// Program returns the path of a program, which may lie where only root or sshd
// looks for it.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin/", "/usr/lib/openssh/", "/usr/libexec/openssh/", "/usr/lib/ssh/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	Skip(t, name+" is not installed")
	return ""
}

// Root is for tests that make accounts or mounts.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		Skip(t, "this test makes accounts or mounts, which needs root")
	}
}

// Zone returns a time zone by its name in the IANA list.
func Zone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		Skip(t, err.Error())
	}
	return zone
}
