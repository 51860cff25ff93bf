package cli

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
)

// light suits the runtime to what a node does every few seconds, one thing after
// another. On one processor no thread wakes up to look for work that is not
// there, which was a tenth of a cycle of the loop. A process that is over in a
// moment takes 16 MiB before it looks for garbage (that is where 400 % begin)
// instead of 4: both together were a tenth of `run --once`. The loop stays small.
// Who has set GOMAXPROCS or GOGC knows better.
func light(args []string) {
	if len(args) == 0 || !slices.Contains([]string{"run", "collect", "publish", "list", "available"}, args[0]) {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" && (args[0] != "run" || slices.Contains(args, "--once")) {
		debug.SetGCPercent(400)
	}
}

// patience is how much memory a process that is over in a moment takes before it
// looks for garbage.
const patience = 64 << 20

// unhurried suits the runtime to one generation. That of a small fleet is over
// before its garbage would matter, and looking for it all the while was a fifth
// of it. A large one looks as ever from the first time on. Who has set GOGC or
// GOMEMLIMIT knows better.
func unhurried() {
	percent := debug.SetGCPercent(100)
	if percent != 100 || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		debug.SetGCPercent(percent)
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(patience)
	runtime.AddCleanup(&struct{ first *int }{}, func(int) {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
	}, 0)
}
