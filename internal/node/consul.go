package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// lastReportTimeout limits the report to Consul at the end of the loop.
const lastReportTimeout = 2 * time.Second

// A consulReporter registers the node with its Consul agent and reports its state. In a loop it
// works in a goroutine of its own, so a Consul that does not answer costs the loop nothing.
type consulReporter struct {
	consul       *inventory.Consul
	registration inventory.Registration // what the settings say, and what snapshots show
	settings     board.Settings
	pushes       bool // the loop pushes, and does not only collect
	log          *failure.Log

	registered inventory.Registration // zero for nothing
	cycles     chan cycle             // with room for one: only the newest counts
}

// start begins to report until stop is called, with the error that ended the loop.
func (r *consulReporter) start() (stop func(error)) {
	r.cycles = make(chan cycle, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case c := <-r.cycles:
				err := r.report(ctx, c)
				if ctx.Err() != nil {
					return
				}
				r.log.Report("telling Consul", "register:failed", err)
			case <-ctx.Done():
				return
			}
		}
	})
	return func(err error) {
		cancel()
		running.Wait()
		why := "the collector was stopped"
		if err != nil {
			why = "the collector ended: " + err.Error()
		}
		ctx, cancel := context.WithTimeout(context.Background(), lastReportTimeout)
		defer cancel()
		if err := r.consul.Report(ctx, inventory.Critical, why); !errors.Is(err, inventory.ErrNotRegistered) {
			r.log.Report("telling Consul", "register:failed", err)
		}
	}
}

// send hands over the outcome of a cycle and never waits. One that was not reported yet is
// replaced. Only one goroutine may call it.
func (r *consulReporter) send(c cycle) {
	select {
	case <-r.cycles:
	default:
	}
	r.cycles <- c
}

// report registers the node if necessary and reports the outcome of a cycle.
func (r *consulReporter) report(ctx context.Context, c cycle) error {
	if c.snap != nil {
		Learn(&r.registration, c.snap)
	}
	// Until nvidia-smi has shown a GPU, the agent's registration of an earlier run is better.
	if r.registration.GPUs > 0 || r.registration.Models != nil {
		if err := r.register(ctx); err != nil {
			return err
		}
	}
	check, output := r.judge(c)
	err := r.consul.Report(ctx, check, output)
	if errors.Is(err, inventory.ErrNotRegistered) { // not yet, or the agent has lost it
		r.registered = inventory.Registration{}
		if err = r.register(ctx); err == nil {
			err = r.consul.Report(ctx, check, output)
		}
	}
	return err
}

func (r *consulReporter) register(ctx context.Context) error {
	if reflect.DeepEqual(r.registered, r.registration) {
		return nil
	}
	notices, err := r.consul.Register(ctx, r.registration)
	if err != nil {
		return err
	}
	r.registered = r.registration
	for _, p := range notices {
		r.log.Problem(p)
	}
	return nil
}

// judge says in one line how the node is.
func (r *consulReporter) judge(c cycle) (check inventory.Check, output string) {
	switch {
	case c.collectErr != nil:
		return inventory.Warning, "collecting: " + c.collectErr.Error()
	case c.pushErr != nil:
		return inventory.Warning, "collected, and not delivered: " + c.pushErr.Error()
	case c.snap == nil:
		return inventory.Warning, "nothing was collected"
	case len(c.snap.Errors) > 0:
		first := c.snap.Errors[0]
		output := first.Message
		if first.GPU != nil {
			output = fmt.Sprintf("GPU %d: %s", *first.GPU, output)
		}
		if more := len(c.snap.Errors) - 1; more > 0 {
			output += fmt.Sprintf(" (+%d more)", more)
		}
		return inventory.Warning, output
	}
	// Free means the same as on the board, without the bookings, which a node does not know.
	at := c.snap.CollectedAt.Time
	b, _ := board.Merge(board.Input{
		Now: at, Settings: r.settings,
		Hosts:   []inventory.Host{{Name: c.snap.Host}},
		Reports: map[string]board.Report{c.snap.Host: {Snapshot: c.snap, SeenAt: at}},
	})
	output = b.Totals.FreeOf() + " free"
	if !r.pushes {
		output += " (collected; no drop is set)"
	}
	return inventory.Passing, output
}

// Learn fills in what a snapshot shows of the GPUs. Their number is not learned: a node that was
// restarted after it lost a GPU would report one fewer, and the board would take the lost one for
// removed. The board remembers the GPUs that it saw.
func Learn(reg *inventory.Registration, snap *snapshot.Snapshot) {
	if snap.DriverVersion != "" {
		reg.Driver = snap.DriverVersion
	}
	var models []string
	for _, g := range snap.GPUs {
		if g.Name != "" && !slices.Contains(models, g.Name) {
			models = append(models, g.Name)
		}
	}
	if models != nil {
		reg.Models = models
	}
}
