package cli

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// farewell bounds the last word to Consul when the loop ends.
const farewell = 2 * time.Second

// A herald tells this node's Consul agent how the node is. It works beside the
// loop, so that a Consul that is away or hangs costs the loop nothing.
type herald struct {
	log       *failure.Log
	registrar *inventory.Registrar
	settings  board.Settings
	about     inventory.Registration
	known     inventory.Registration // what the agent was last told; zero for nothing
	pushes    bool                   // the loop pushes, and does not only collect
	news      chan news              // one at most: only the newest counts
	cancel    context.CancelFunc
	done      chan struct{}
}

// news is what one cycle of the loop came to.
type news struct {
	snap    *snapshot.Snapshot // nil when there is none
	collect error
	push    error
}

// A report is what Consul is told.
type report struct {
	fine   bool
	output string // one line
}

func (a *app) newHerald(cfg *config.Config) (*herald, error) {
	about, err := a.registration(cfg)
	if err != nil {
		return nil, err
	}
	if every := cfg.Duration("every"); about.TTL <= every {
		return nil, usagef("", "register.ttl from %s: %v is not longer than the interval of %v, so the node would always be late", cfg.Origin("register.ttl"), about.TTL, every)
	}
	registrar, err := newRegistrar(cfg)
	if err != nil {
		return nil, err
	}
	return &herald{
		log: failure.NewLog(a.stderr, a.now), registrar: registrar, settings: cfg.Board(), about: about, pushes: cfg.String("to") != "",
		news: make(chan news, 1), done: make(chan struct{}),
	}, nil
}

// start lets the herald work until stop.
func (h *herald) start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		for {
			select {
			case n := <-h.news:
				err := h.tell(ctx, n)
				if ctx.Err() != nil {
					return
				}
				h.log.Report("telling Consul", "register:failed", err)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// hear takes the news of a cycle, and never waits. It is for one goroutine.
func (h *herald) hear(n news) {
	for {
		select {
		case h.news <- n:
			return
		default:
		}
		select {
		case <-h.news: // nobody has heard it, and it is old now
		default:
		}
	}
}

// stop ends the herald with a last word: nobody watches this node any more.
func (h *herald) stop(why string) {
	h.cancel()
	<-h.done
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := h.registrar.Fail(ctx, why); err != nil && !notRegistered(err) {
		h.log.Report("telling Consul", "register:failed", err)
	}
}

// tell registers the node, when that is due, and reports how it is.
func (h *herald) tell(ctx context.Context, n news) error {
	if n.snap != nil {
		learn(&h.about, n.snap)
	}
	// As long as nvidia-smi has not shown a GPU, what the agent may remember of
	// an earlier run is better than what there is to say.
	if h.about.GPUs > 0 || h.about.Models != nil {
		if err := h.register(ctx); err != nil {
			return err
		}
	}
	r := h.judge(n)
	send := h.registrar.Warn
	if r.fine {
		send = h.registrar.Pass
	}
	err := send(ctx, r.output)
	if notRegistered(err) {
		if err = h.register(ctx); err == nil {
			err = send(ctx, r.output)
		}
	}
	return err
}

func (h *herald) register(ctx context.Context) error {
	if reflect.DeepEqual(h.known, h.about) {
		return nil // should the agent have forgotten, the registrar notices by itself
	}
	notices, err := h.registrar.Register(ctx, h.about)
	if err != nil {
		return err
	}
	h.known = h.about
	for _, p := range notices {
		h.log.Problem(p)
	}
	return nil
}

// judge says in one line how the node is. A warning tells what is wrong and no
// numbers that change: each change of its words makes generators look again.
func (h *herald) judge(n news) report {
	switch {
	case n.collect != nil:
		return report{output: "collecting: " + n.collect.Error()}
	case n.push != nil:
		return report{output: "collected, and not delivered: " + n.push.Error()}
	case n.snap == nil:
		return report{output: "nothing was collected"}
	case len(n.snap.Errors) > 0:
		output := n.snap.Errors[0].Message
		if gpu := n.snap.Errors[0].GPU; gpu != nil {
			output = fmt.Sprintf("GPU %d: %s", *gpu, output)
		}
		if more := len(n.snap.Errors) - 1; more > 0 {
			output += fmt.Sprintf(" (+%d more)", more)
		}
		return report{output: output}
	}
	// Free is what the board calls so, without the bookings, which a node does not know.
	b, _ := board.Merge(board.Input{
		Now: n.snap.CollectedAt.Time, Settings: h.settings,
		Hosts:   []inventory.Host{{Name: n.snap.Host}},
		Reports: map[string]board.Report{n.snap.Host: {Snapshot: n.snap, SeenAt: n.snap.CollectedAt.Time}},
	})
	output := fmt.Sprintf("%d GPUs, %d free", b.Totals.GPUs, b.Totals.Free())
	if !h.pushes {
		output += " (collected; no drop is set)"
	}
	return report{fine: true, output: output}
}
