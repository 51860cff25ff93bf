package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/mirror"
)

// roots is what another drop host costs a generator, and what the generator
// costs that host: a look over SFTP at all its drops.
func (s *suite) roots() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	return s.with(func(h *harness) error {
		server := sshtest.Start(h, sshtest.Options{Command: "internal-sftp -R"})
		proxy := sshtest.NewProxy(h, server.Addr)
		hosts := f.path("known_hosts")
		if err := rewriteKnown(server, proxy, hosts); err != nil {
			return err
		}
		m, err := mirror.New(mirror.Options{Dir: filepath.Join(s.dir, "copy"), Keep: true, Server: publisher.Options{
			Target:   publisher.Target{Scheme: "sftp", User: server.User, Host: "127.0.0.1", Port: proxy.Port, Dir: f.path("data")},
			Identity: []string{server.Key}, KnownHosts: []string{hosts}, ConfigFiles: []string{}, Budget: time.Minute,
		}})
		if err != nil {
			return err
		}
		defer m.Close()
		refresh := func() (mirror.Stats, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			stats, _, err := m.Refresh(ctx)
			return stats, err
		}
		begin := time.Now()
		first, err := refresh()
		if err != nil {
			return err
		}
		s.note("R1: the first look fetched %d files, %s MiB, in %s.", first.Fetched, number(float64(first.Bytes)/(1<<20)), time.Since(begin).Round(10*time.Millisecond))
		var besides []beside
		if _, found := s.peer("rsync", "copying drops"); found {
			plain := sshtest.Start(h, sshtest.Options{}) // rsync needs a shell there
			cost, err := s.rsync(f, plain)
			if err != nil {
				s.note("rsync beside R1: %v", err)
			} else {
				besides = []beside{{"rsync of the same over ssh, both ends", cost}}
			}
		}
		for _, news := range []struct {
			what  string
			names []string
		}{{"without news", nil}, {"with news of 1 %", f.names[:max(1, len(f.names)/100)]}, {"where all have news", f.names}} {
			var ms, there, wall []float64
			for n := range s.times(8) + 1 {
				time.Sleep(1100 * time.Millisecond) // SFTP tells times in seconds: pushes are that far apart
				if err := f.push(news.names); err != nil {
					return err
				}
				before := spent(server.Sessions()...)
				u, err := mine(func() error { _, err := refresh(); return err })
				if err != nil {
					return err
				}
				if n > 0 { // what one look leaves unsure, the next settles
					ms, there = append(ms, u.ms()), append(there, float64((spent(server.Sessions()...)-before).Microseconds())/1000)
					wall = append(wall, float64(u.wall.Microseconds())/1000)
				}
			}
			s.add(row{id: "R1", what: fmt.Sprintf("a look over SFTP at %d hosts of another drop host, %s", len(f.names), news.what), unit: "ms", values: ms, least: true, besides: besides})
			s.add(row{id: "R1", what: "on that host", unit: "ms", values: there, least: true})
			s.add(row{id: "R1", what: "by the clock, with a network that costs no time", unit: "ms", values: wall, least: true})
			besides = nil
		}
		return nil
	})
}
