package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// A generator is the one of generate --watch, in a process of its own: what the bench needs to make a fleet live
// counts neither in its time nor in its memory.
type generator struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// A fleetPlace is where a generator finds a fleet.
type fleetPlace struct {
	Data, Site, State string
	Hosts             []inventory.Host
	At                time.Time
}

// An order asks for one generation. From the first one that names a file for it, the process writes its profile
// there.
type order struct {
	At      time.Time
	Profile string
}

// A generation is what one cost: processor time in ms, and the files that were written.
type generation struct {
	MS    float64
	Files int
	Error string
}

// startGenerator starts this program again as the generator of a fleet.
func (f *fleet) startGenerator() (*generator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &generator{cmd: exec.Command(self, "-generator")}
	g.cmd.Stderr = os.Stderr
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	g.out = json.NewDecoder(out)
	place := fleetPlace{Data: f.path("data"), Site: f.site(), State: f.path("state"), At: f.at}
	for _, h := range f.Hosts() {
		place.Hosts = append(place.Hosts, inventory.Host{Name: h.Name, Group: h.Group})
	}
	return g, json.NewEncoder(g.in).Encode(place)
}

// generate asks for one generation and waits for it.
func (g *generator) generate(at time.Time, profile string) (generation, error) {
	var done generation
	if err := json.NewEncoder(g.in).Encode(order{At: at, Profile: profile}); err != nil {
		return done, err
	}
	if err := g.out.Decode(&done); err != nil {
		return done, fmt.Errorf("the generator's process: %w", err)
	}
	if done.Error != "" {
		return done, fmt.Errorf("generating: %s", done.Error)
	}
	return done, nil
}

// stop ends the process. It may be called twice.
func (g *generator) stop() error {
	if g.cmd.ProcessState != nil {
		return nil
	}
	_ = g.in.Close()
	return g.cmd.Wait()
}

// serveGenerations is the process of a [generator]. It ends when in ends.
func serveGenerations(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var place fleetPlace
	if err := orders.Decode(&place); err != nil {
		return err
	}
	store, err := history.Open(context.Background(), place.State+"/history.db", place.At, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := sitegen.New(sitegen.Options{
		Data: place.Data, Site: place.Site, State: place.State, History: store,
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: place.Hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: every},
	})
	if err != nil {
		return err
	}
	profiling := false
	for {
		var o order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if o.Profile != "" && !profiling {
			file, err := os.Create(o.Profile)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := pprof.StartCPUProfile(file); err != nil {
				return err
			}
			defer pprof.StopCPUProfile() // before the file is closed
			profiling = true
		}
		var done generation
		u, err := mine(func() error {
			r, err := g.Generate(context.Background(), o.At)
			done.Files = r.Written
			return err
		})
		done.MS = u.ms()
		if err != nil {
			done.Error = err.Error()
		}
		if err := answers.Encode(done); err != nil {
			return err
		}
	}
}
