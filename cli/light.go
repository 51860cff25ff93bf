package cli

import (
	"runtime"
	"runtime/debug"
	"slices"
)

// light suits the runtime to what a node does every few seconds, one thing after
// another. On one processor no thread wakes up to look for work that is not
// there, which was a tenth of a cycle of the loop. A process that is over in a
// moment takes 16 MiB before it looks for garbage (that is where 400 % begin)
// instead of 4: both together were a tenth of `run --once`. The loop stays small.
func light(args []string) {
	if len(args) == 0 || !slices.Contains([]string{"run", "collect", "publish", "list", "available"}, args[0]) {
		return
	}
	runtime.GOMAXPROCS(1)
	if args[0] != "run" || slices.Contains(args, "--once") {
		debug.SetGCPercent(400)
	}
}
