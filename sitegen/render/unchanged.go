package render

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"gpuboard/board"
)

// alike are the hosts of a board as they were when each was last another.
type alike struct {
	byName map[string]*board.Host
}

// unchanged returns for each host of a board one that is equal to it, and the same
// one as long as nothing changes: so pages and data find out by a pointer, after
// one comparison for all of them. c may be nil.
func (c *Cache) unchanged(b *board.Board) []*board.Host {
	if len(b.Hosts) == 0 {
		return nil
	}
	if c == nil {
		c = &Cache{}
	}
	hosts := make([]*board.Host, len(b.Hosts))
	eachOf(len(hosts), func(i int) {
		h := &b.Hosts[i]
		hosts[i] = c.alike.byName[h.Name]
		if hosts[i] == nil || !equal(h, hosts[i]) {
			made := *h // not a part of the board, which would stay for it
			hosts[i] = &made
		}
	})
	byName := make(map[string]*board.Host, len(hosts))
	for _, h := range hosts {
		byName[h.Name] = h
	}
	c.alike = alike{byName}
	return hosts
}

// equal is reflect.DeepEqual for values that hold no pointer to themselves: not
// looking out for those makes it several times as fast.
func equal[T any](x, y T) bool { return equalValues(reflect.ValueOf(x), reflect.ValueOf(y)) }

func equalValues(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.Pointer:
		return x.Pointer() == y.Pointer() || !x.IsNil() && !y.IsNil() && equalValues(x.Elem(), y.Elem())
	case reflect.Slice:
		if x.Len() != y.Len() || x.IsNil() != y.IsNil() {
			return false
		}
		if x.Pointer() == y.Pointer() {
			return true
		}
		for i := range x.Len() {
			if !equalValues(x.Index(i), y.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range x.NumField() {
			if !equalValues(x.Field(i), y.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Map, reflect.Interface, reflect.Func:
		return reflect.DeepEqual(x.Interface(), y.Interface())
	}
	return x.Equal(y)
}

// inTurn calls do for every number below n as eachOf does, and take for one after
// the other as soon as they are done. After an error of either, no more is taken.
func inTurn(n int, do, take func(i int) error) (err error) {
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

// eachOf calls do for every number below n, with as many hands as there are processors.
func eachOf(n int, do func(i int)) {
	var next atomic.Int64
	var hands sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		hands.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	hands.Wait()
}
