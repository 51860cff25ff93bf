package collector

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpuboard/collector/kernellog"
	"gpuboard/internal/snapshot"
)

const (
	journalBudget   = 3 * time.Second
	journalInterval = 5 * time.Minute
	maxJournalBytes = 4 << 20
)

// kernelLogEvents returns new events of the kernel's log: from /dev/kmsg, which is cheap
// to read, or from the journal, which more accounts may read. An account that may read
// neither gets no events and no error.
func (c *Collector) kernelLogEvents(ctx context.Context, now time.Time) []kernellog.Event {
	up, ok := kernelClock()
	if !ok || c.opts.Elsewhere != nil {
		return nil
	}
	if c.kmsg == nil {
		c.kmsg = openKmsg(c.opts.Kmsg)
	}
	if c.kmsg != nil {
		return kernellog.ReadKmsg(records{c.kmsg}, now, up)
	}
	if c.opts.Journal == "" || !c.journalAt.IsZero() && now.Sub(c.journalAt).Abs() < journalInterval {
		return nil
	}
	since := c.journalAt
	if !since.IsZero() {
		since = since.Add(-time.Minute) // for records that were late
	}
	c.journalAt = now
	program, err := resolve(c.opts.Journal)
	if err != nil {
		return nil
	}
	r := execute(ctx, program, kernellog.JournalArgs(since), environment("LC_ALL=C"), journalBudget, maxJournalBytes)
	if r.hung != 0 {
		c.opts.Journal = "" // never start a second one
	}
	return kernellog.ReadJournal(r.stdout)
}

// openKmsg opens the kernel's log at its oldest record; nil if that is not possible. In
// a container /dev/kmsg may be a terminal, which must not be read.
func openKmsg(name string) *os.File {
	info, err := os.Stat(name)
	if err != nil {
		return nil
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() && (!ok || uint64(stat.Rdev) != kmsgDevice) {
		return nil
	}
	f, _ := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	return f
}

// kmsgDevice is major 1, minor 11: part of the kernel's interface.
const kmsgDevice = 1<<8 | 11

// records reads the available records and does not wait for more, unlike an *os.File.
type records struct{ f *os.File }

func (r records) Read(p []byte) (n int, err error) {
	raw, err := r.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		// EPIPE: records were overwritten before they were read; the next read succeeds.
		for range 16 {
			if n, err = syscall.Read(int(fd), p); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		return true
	})
	if err = cmp.Or(failed, err); err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// addXIDs sets the last XID of each GPU, and reports fatal ones as problems. A GPU that
// has fallen off the bus may not be listed any more.
func (c *Collector) addXIDs(s *snapshot.Snapshot, found []kernellog.Event) {
	c.xids.Add(found...)
	listed := map[string]*snapshot.GPU{}
	for i := range s.GPUs {
		bus, _, _ := strings.Cut(snapshot.BusID(s.GPUs[i].PCIBusID), ".")
		listed[bus] = &s.GPUs[i]
	}
	for _, bus := range slices.Sorted(maps.Keys(c.xids)) {
		last, g := c.xids[bus], listed[snapshot.BusID(bus)]
		if g != nil {
			g.XID = &snapshot.XID{Code: last.Code, At: snapshot.TimeOf(last.At.Truncate(time.Second))}
		}
		if last.Fatal == nil || s.CollectedAt.Sub(last.Fatal.At) > kernellog.FatalFor {
			continue
		}
		p := snapshot.NewProblem("gpu:xid", "the driver reported XID %d for the GPU at PCI %s at %s",
			last.Fatal.Code, bus, last.Fatal.At.UTC().Format(time.RFC3339))
		if g != nil {
			p.GPU = new(g.Index)
		}
		s.Errors = append(s.Errors, p)
	}
}
