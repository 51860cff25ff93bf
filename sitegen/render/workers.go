package render

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// InTurn calls do for every number below n as eachOf does, and take for one after
// the other as soon as they are done. After an error of either, no more is taken.
func InTurn(n int, do, take func(i int) error) (err error) {
	var mu sync.Mutex
	turn, moved := 0, sync.NewCond(&mu)
	eachOf(n, func(i int) {
		mu.Lock()
		done := err
		mu.Unlock()
		if done == nil {
			done = do(i)
		}
		mu.Lock()
		defer mu.Unlock()
		for turn < i {
			moved.Wait()
		}
		if err == nil {
			err = done
		}
		if err == nil {
			err = take(i)
		}
		turn++
		moved.Broadcast()
	})
	return err
}

// eachOf calls do for every number below n, with one worker per processor.
func eachOf(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
