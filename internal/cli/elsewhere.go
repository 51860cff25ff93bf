package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
)

// openEverywhere returns what may be used on the board here and then on those of other clusters, or where places say. A
// board that is away or late has nothing, and is said on stderr; if no other is asked, the error says why.
func (a *app) openEverywhere(
	ctx context.Context, cfg *config.Config, w *wanted, places []string, mine func(string) bool,
) (open []board.Unit, err error) {
	var boards []*source.Source
	s, there, err := source.OpenCluster(ctx, a.source(cfg), "", places)
	if err == nil {
		boards = append(boards, s)
	} else if len(cfg.Sites()) == 0 || len(places) > 0 {
		return nil, err
	}
	patterns, err := hostPatterns(there)
	if err != nil {
		return nil, failure.Usage("", "%w", err)
	}
	if len(places) == 0 {
		clusters, err := source.Clusters(ctx, a.source(cfg), w.MayBeIn)
		if err != nil {
			return nil, err
		}
		for i := range clusters {
			one := &clusters[i]
			if one.Away != "" {
				fmt.Fprintf(a.stderr, "gpuboard: %s: %s\n", one.Name, failure.Printable(one.Away))
			}
			if one.State == board.Up && w.MayBeIn(&one.Summary.Own) {
				boards = append(boards, one.Source)
			}
		}
	}

	found, faults := make([][]board.Unit, len(boards)), make([]error, len(boards))
	var asked sync.WaitGroup
	for i, s := range boards {
		asked.Go(func() { found[i], faults[i] = a.openOn(ctx, s, w.Request, patterns, mine) })
	}
	asked.Wait()
	for i, fault := range faults {
		if fault != nil && len(boards) == 1 {
			return nil, fault
		} else if fault != nil {
			fmt.Fprintf(a.stderr, "gpuboard: %s\n", failure.Printable(fault.Error()))
		}
		open = append(open, found[i]...)
	}
	return open, nil
}

// openOn returns what may be used on one board, on hosts that the patterns mean.
func (a *app) openOn(
	ctx context.Context, s *source.Source, request board.Request, patterns []string, mine func(string) bool,
) ([]board.Unit, error) {
	p, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	if p.Board.Late(a.now()) {
		err := fmt.Errorf("%s is %s old, so what is free there is not known", s.Name,
			snapshot.Length(p.Board.Age(a.now())))
		return nil, failure.New(failure.ExitTryAgain, err, "")
	}
	request.Hosts = matching(p.Board, patterns)
	a.missingHosts(p.Board, request.Hosts)
	open := request.Choose(p.Board, mine)
	inCluster(s.Cluster, open)
	return open, nil
}

// inCluster puts the cluster before the names of the hosts of GPUs: north/gpu01.
func inCluster(cluster string, open []board.Unit) {
	for _, o := range open {
		o.Host.Name = cluster + strings.TrimPrefix(o.Host.Name, cluster)
	}
}

// siteOf splits the name of a host again.
func siteOf(o board.Unit) (site, host string) {
	cluster, host := source.CutCluster(o.Host.Name)
	return strings.TrimSuffix(cluster, "/"), host
}

// elsewhere runs a command on the bookings of another cluster: by ssh where that says on which host, else by
// its form, which takes what book is asked for (nil for another command).
func (a *app) elsewhere(c *cobra.Command, cfg *config.Config, places []string, r *bookRequest) error {
	e := &editor{app: a, Policy: a.asking(cfg, cfg.String("booking.name")),
		defaultLength: cfg.String("booking.default_duration")}
	if r != nil {
		if err := e.misplaced(r, places); err != nil {
			return err
		}
	}
	s, there, err := source.OpenCluster(c.Context(), a.source(cfg), "", places)
	if err != nil {
		return err
	}
	said, err := s.Summary(c.Context())
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(s.Cluster, "/")
	if said.BookSSH != "" {
		fmt.Fprintf(a.stderr, "gpuboard: by ssh on %s, as %s says\n", said.BookSSH, name)
		return a.bySSH(c, cfg, said.BookSSH, there)
	}
	form, person := s.Form(c.Context(), said)
	if form != nil && r != nil {
		e.Person = person
		return e.byForm(c, form, r, there)
	}
	hint := "on its web host: " + shell.Join(append(commandLine(c, "config"), there...)...)
	if form != nil {
		hint = "its form: " + form.FormAddress(there) + ", or " + hint
	}
	return failure.Usage(hint, "%s is another cluster, which has its own bookings", name)
}

// byForm books by the form of another cluster, which knows by its login who books.
func (e *editor) byForm(c *cobra.Command, form *source.Source, r *bookRequest, places []string) error {
	known := []string{"config", "for", "until", "from", "comment", "json", "timezone", "booking-default-duration",
		"site-timeout"}
	if more := commandLine(c, known...)[2:]; len(more) > 0 {
		return failure.Usage("its form: "+form.FormAddress(places), "the form of %s takes no %s from here",
			strings.TrimSuffix(form.Cluster, "/"), more[0])
	}
	if err := r.check(c, places); err != nil {
		return err
	}
	one, err := e.booking(r)
	if err != nil {
		return err
	}
	list, err := e.wanted(r, one, places)
	if err != nil {
		return err
	}
	fields := url.Values{"action": {"book"}, "until": {booking.EndText(one.Until)}, "comment": {r.comment}}
	if r.from != "" {
		fields.Set("from", booking.EndText(one.From))
	}
	ids, err := form.SendForm(c.Context(), places, fields)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Host, list[i].Name = form.Cluster+list[i].Host, e.Person
		if len(ids) == len(list) {
			list[i].ID = ids[i]
		}
	}
	return e.done("booked", booking.Change{Done: list}, r.asJSON, false)
}
