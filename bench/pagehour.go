package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuboard/internal/testenv/browser"
)

// A fault lasts for some time. Some leave nobody there who could be asked meanwhile.
type fault struct {
	name       string
	lasts      time.Duration
	begin, end func() error
	unseen     bool
}

// A pageHour is the front page of a moving fleet, open in several tabs of a browser, while one fault follows another.
type pageHour struct {
	*suite
	site    *movingSite
	readers []*reader
	began   time.Time
	phase   string // what goes on
	rhythm  time.Duration
	lost    []string
	late    int // times that a page called itself late, though all was well
	checks  int
	// What one renewal took of the main thread, in ms, where hosts that had not changed stayed, and where none did.
	renewal, whole []float64
	watched        watchedRenewals
	recovered      []recovery
}

// A recovery is how long the slowest page took after a fault.
type recovery struct {
	fault   string
	seconds float64
	reader  string
}

// watchedRenewals is where the page without a reader was when it was last looked at.
type watchedRenewals struct {
	renewals int
	worked   float64
}

// pageHour is what a page that stays open loses, how soon it recovers, and what its renewals take, while everything
// around it fails in turn.
func (s *suite) pageHour() error {
	return s.with(func(h *harness) error {
		site, err := s.newMovingSite(h, s.nodes)
		if err != nil {
			return err
		}
		p := &pageHour{suite: s, site: site, phase: "nothing", readers: readers(site.proxy.URL+"/", s.nodes)}
		chromium := browser.Alone(h, 1440, 900)
		for i, r := range p.readers {
			tab := chromium
			if i > 0 {
				tab = chromium.Tab()
			}
			r.open(tab)
		}
		seconds, err := strconv.Atoi(p.readers[0].Value(`document.documentElement.dataset.interval`))
		if err != nil {
			return err
		}
		p.rhythm, p.began = time.Duration(seconds)*time.Second, time.Now()
		if err := p.goOn(chromium); err != nil {
			return err
		}
		return p.report()
	})
}

// goOn lets the faults follow each other until the time is over.
func (p *pageHour) goOn(chromium *browser.Browser) error {
	faults := p.faults(chromium)
	if p.quick {
		for i := range faults {
			faults[i].lasts /= 6
		}
	}
	settled := min(5*time.Minute, p.lasts/4)
	if err := p.watch(settled); err != nil {
		return err
	}
	for _, r := range p.readers {
		var err error
		if r.first, err = r.memory(); err != nil {
			return err
		}
	}
	for n := 0; time.Since(p.began) < p.lasts; n++ {
		f := faults[n%len(faults)]
		p.phase = f.name
		say("    %s: %s, for %s", time.Now().Format(time.TimeOnly), f.name, f.lasts)
		if err := f.begin(); err != nil {
			return err
		}
		if f.unseen {
			time.Sleep(f.lasts)
		} else if err := p.watch(f.lasts); err != nil {
			return err
		}
		newest := p.site.built()
		if err := f.end(); err != nil {
			return err
		}
		if f.name == "the generator was killed" {
			newest = newest.Add(time.Second)
		}
		p.recover(f.name, newest)
		p.phase = "after: " + f.name
		if err := p.watch(40 * time.Second); err != nil {
			return err
		}
	}
	return nil
}

// faults are what goes wrong, one after the other.
func (p *pageHour) faults(chromium *browser.Browser) []fault {
	proxy := func(name, fails string, lasts time.Duration) fault {
		become := func(how string) func() error {
			return func() error {
				p.site.fails.Store(how)
				return nil
			}
		}
		return fault{name: name, lasts: lasts, begin: become(fails), end: become("")}
	}
	each := func(do func(r *reader)) func() error {
		return func() error {
			for _, r := range p.readers {
				do(r)
			}
			return nil
		}
	}
	send := func(sig syscall.Signal) func() error {
		return func() error {
			signal(chromium.Process(), sig)
			return nil
		}
	}
	return []fault{
		{
			name: "the generator was killed", lasts: 3 * time.Minute,
			begin: func() error { p.site.kill(); return nil }, end: p.site.generate,
		},
		proxy("the server answered 502", "502", time.Minute),
		{
			name: "the browser was stopped", lasts: 3 * time.Minute, unseen: true,
			begin: send(syscall.SIGSTOP), end: send(syscall.SIGCONT),
		},
		proxy("the server did not answer", "hangs", 90*time.Second),
		{
			name: "the tabs were hidden", lasts: 2 * time.Minute, unseen: true,
			begin: each(func(r *reader) { r.Hide(true) }), end: each(func(r *reader) { r.Hide(false) }),
		},
		proxy("the server took 8 s for each answer", "slow", time.Minute),
		{
			name: "the tabs were frozen", lasts: 2 * time.Minute, unseen: true,
			begin: each((*reader).freeze), end: each((*reader).thaw),
		},
		proxy("the server cut its connections", "cuts", 45*time.Second),
		proxy("another page came instead", "login", 45*time.Second),
	}
}

// watch looks at all pages every few seconds: nothing may be lost. Meanwhile somebody types in the search, and GPUs are
// booked.
func (p *pageHour) watch(lasts time.Duration) error {
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(5 * time.Second) {
		p.checks++
		for _, r := range p.readers {
			p.check(r)
		}
		if err := p.watchRenewals(); err != nil {
			return err
		}
		switch p.checks % 12 {
		case 3, 9:
			p.readers[0].typeAnew(p.checks%12 == 9)
		case 0, 4, 8:
			p.site.bookSomething()
		}
	}
	return nil
}

// check sees whether a reader has everything.
func (p *pageHour) check(r *reader) {
	holds := "the page was loaded anew"
	if r.Value(`typeof hour === "object"`) == "true" && r.Value(`hour.begun > 0`) == "true" {
		holds = r.held()
	}
	if holds != r.holds {
		r.lost++
		p.lost = append(p.lost, fmt.Sprintf("%s in, %s, %s: it was %q, and is %q",
			time.Since(p.began).Round(time.Second), p.phase, r.name, r.holds, holds))
		say("    LOST %s", p.lost[len(p.lost)-1])
		r.start()
	}
	wellSince := p.phase == "nothing" || strings.HasPrefix(p.phase, "after: ")
	if wellSince && r.Value(`hour.isLate()`) == "true" {
		p.late++
		say("    LATE %s in, %s: %s", time.Since(p.began).Round(time.Second), r.name, r.Text("#_state"))
	}
}

// watchRenewals notes what the page without a reader did since it was looked at, where that was one renewal.
func (p *pageHour) watchRenewals() error {
	r := p.readers[slices.IndexFunc(p.readers, func(r *reader) bool { return r.name == "watcher" })]
	worked, err := r.worked()
	if err != nil {
		return err
	}
	renewals, err := strconv.Atoi(r.Value(`hour.renewals`))
	if err != nil {
		return err
	}
	before := p.watched
	p.watched = watchedRenewals{renewals, worked}
	if renewals != before.renewals+1 {
		return nil
	}
	if r.Value(`hour.whole`) == "true" { // the next one will be
		p.renewal = append(p.renewal, worked-before.worked)
	} else {
		p.whole = append(p.whole, worked-before.worked)
	}
	return nil
}

// recover waits until all pages have the generation that was the newest when a fault ended, or a later one, and do not
// call themselves late any more.
func (p *pageHour) recover(name string, newest time.Time) {
	began := time.Now()
	waiting := slices.Clone(p.readers)
	last := recovery{fault: name}
	for len(waiting) > 0 && time.Since(began) < 5*p.rhythm {
		waiting = slices.DeleteFunc(waiting, func(r *reader) bool {
			built := builtIn(r.Value(`hour.built()`))
			if built.Before(newest) || r.Value(`hour.isLate()`) == "true" {
				return false
			}
			last.seconds, last.reader = time.Since(began).Seconds(), r.name
			return true
		})
		time.Sleep(500 * time.Millisecond)
	}
	for _, r := range waiting {
		last.seconds, last.reader = time.Since(began).Seconds(), r.name+" never"
	}
	p.recovered = append(p.recovered, last)
	say("    recovered after %.1f s (the last one was %s)", last.seconds, last.reader)
}

// report adds the rows.
func (p *pageHour) report() error {
	add := func(what, unit string, target float64, values ...float64) {
		if len(values) > 0 {
			p.add(row{id: "page-hour", what: what, unit: unit, target: target, values: values})
		}
	}
	add(fmt.Sprintf("a page of %d hosts that move, open for %s in %d tabs, with %d faults", p.nodes, p.lasts,
		len(p.readers), len(p.recovered)), "", 0, float64(p.nodes))
	add("times that readers lost something", "", 0, float64(len(p.lost)))
	for _, lost := range p.lost {
		p.note("page-hour, %d hosts, lost %s.", p.nodes, lost)
	}
	add("times that a page called itself late while all was well", "", 0, float64(p.late))
	byFault := map[string][]float64{}
	for _, r := range p.recovered {
		byFault[r.fault] = append(byFault[r.fault], r.seconds)
	}
	for _, f := range p.faults(nil) {
		add("until all pages were right after "+f.name, "s", 2*p.rhythm.Seconds(), byFault[f.name]...)
	}
	add("a renewal of the page on its main thread", "ms", 0, p.renewal...)
	add("the same with all hosts replaced", "ms", 0, p.whole...)
	return p.reportPages(add)
}

// reportPages adds what the pages have noted.
func (p *pageHour) reportPages(add func(what, unit string, target float64, values ...float64)) error {
	var renewals, loads, shifts, sums, grown, heaps, nodes []float64
	tasks := map[string][]float64{}
	for _, r := range p.readers {
		last, err := r.memory()
		if err != nil {
			return err
		}
		grown, heaps = append(grown, last.heap-r.first.heap), append(heaps, last.heap)
		nodes = append(nodes, float64(last.nodes-r.first.nodes))
		number := func(of string) float64 { return browser.Eval[float64](r.Browser, of) }
		renewals = append(renewals, number(`hour.renewals`))
		loads = append(loads, number(`hour.largestShift(0, hour.loaded)`))
		shifts = append(shifts, number(`hour.largestShift(hour.begun, Infinity)`))
		sums = append(sums,
			number(`hour.shifts.reduce((sum, { at, value }) => sum + (at > hour.begun ? value : 0), 0)`))
		for _, kind := range []string{"renewal", "typed", "cleared"} {
			if r.name == "watcher" {
				continue // half of its renewals are of the whole page
			}
			tasks[kind] = append(tasks[kind],
				browser.Eval[[]float64](r.Browser, fmt.Sprintf("hour.durations(%q)", kind))...)
		}
		if shifts[len(shifts)-1] > 0.001 {
			p.note("page-hour, %d hosts, %s: shifts %s", p.nodes, r.name,
				r.Value(
					`JSON.stringify(hour.shifts.filter(({ at }) => at > hour.begun).sort((a, b) => b.value - a.value).slice(0, 5))`))
		}
	}
	add("renewals of each page", "", 0, renewals...)
	add("requests of the front page for each renewal", "", 0, float64(p.site.asked.Load())/sum(renewals))
	add("heap of a page's scripts at the end", "MiB", 0, heaps...)
	add("by how much it has grown since the first minutes", "MiB", 0, grown...)
	add("by how many nodes the page has grown", "", 0, nodes...)
	add("layout shift (CLS) of each page while it loads", "", 0.01, loads...)
	add("after that, the largest of a page", "", 0.01, slices.Max(shifts))
	add("the sum of all shifts in that time, of each page", "", 0, sums...)
	for kind, what := range map[string]string{"renewal": "but typing", "typed": "after a letter",
		"cleared": "after clearing the search"} {
		add("tasks of 50 ms and more, "+what, "ms", 0, tasks[kind]...)
		if len(tasks[kind]) > 0 {
			most := map[string]float64{"renewal": 120, "typed": 100, "cleared": 100}[kind]
			add("the longest of them", "ms", most, slices.Max(tasks[kind]))
		}
	}
	return nil
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
