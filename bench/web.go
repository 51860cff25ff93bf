package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// weights is what a visitor loads.
func (s *suite) weights() error {
	for _, size := range []struct {
		hosts  int
		target float64
	}{{4, 7.8}, {40, 8.5}, {100, 14}, {s.big(), 88}} {
		f, err := s.fleet(size.hosts)
		if err != nil {
			return err
		}
		if _, err := s.generate(f); err != nil {
			return err
		}
		plain, err := os.ReadFile(f.site("index.html"))
		if err != nil {
			return err
		}
		packed, err := os.Stat(f.site("index.html.gz"))
		if err != nil {
			return err
		}
		var std bytes.Buffer
		w := gzip.NewWriter(&std)
		if _, err := w.Write(plain); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		s.add(
			row{id: "W1",
				what: fmt.Sprintf("the front page of %d hosts, gzipped (plain: %s KiB)", size.hosts,
					kib(int64(len(plain)))), unit: "KiB", values: []float64{float64(packed.Size()) / 1024},
				target:  size.target,
				besides: []beside{{"compress/gzip of it", float64(std.Len()) / 1024}}})
		if size.hosts == 1000 {
			s.add(
				row{id: "W1", what: "the same, plain", unit: "KiB", values: []float64{float64(len(plain)) / 1024},
					target: 1180})
		}
		if size.hosts != 4 {
			continue
		}
		requests := 1 +
			len(
				regexp.MustCompile(
					`<link[^>]+rel="?(stylesheet|icon|preload)|<script[^>]+src=|<img[^>]+src=`).FindAll(plain, -1))
		s.add(row{id: "W1", what: "requests for it", values: []float64{float64(requests)}, target: 6})
		for _, kind := range []struct {
			of     string
			target float64
		}{{"css", 11}, {"js", 9}} {
			files, err := filepath.Glob(f.site("assets", "*."+kind.of+".gz"))
			if err != nil {
				return err
			}
			var sum int64
			for _, path := range files {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				sum += info.Size()
			}
			s.add(
				row{id: "W1", what: strings.ToUpper(kind.of) + ", gzipped", unit: "KiB",
					values: []float64{float64(sum) / 1024}, target: kind.target})
		}
	}
	return nil
}

func kib(n int64) string { return number(float64(n) / 1024) }
