package sitegen_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"testing"
	"time"
)

func TestZZMeasure(t *testing.T) {
	y := newYard(t, 1000, true)
	y.push(every, y.names)
	y.generate()
	for range 3 {
		y.push(every, y.names)
		at := time.Now()
		r := y.generate()
		t.Logf("generation %v: %+v", time.Since(at), r)
	}
	host := map[string]bool{}
	for _, n := range y.names {
		host[n] = true
	}
	word := regexp.MustCompile(`[a-z0-9-]+`)
	type sum struct{ n, b int64 }
	kinds := map[string]*sum{}
	total := sum{}
	os.Chdir(y.path("site"))
	filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, _ := d.Info()
		k := word.ReplaceAllStringFunc(p, func(s string) string {
			if host[s] {
				return "<h>"
			}
			return s
		})
		k = regexp.MustCompile(`users/[^./]+`).ReplaceAllString(k, "users/<u>")
		k = regexp.MustCompile(`help/.*`).ReplaceAllString(k, "help/*")
		k = regexp.MustCompile(`badges/.*`).ReplaceAllString(k, "badges/*")
		s := kinds[k]
		if s == nil {
			s = &sum{}
			kinds[k] = s
		}
		s.n++
		s.b += i.Size()
		total.n++
		total.b += i.Size()
		return nil
	})
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool { return kinds[names[i]].b > kinds[names[j]].b })
	for _, k := range names {
		t.Logf("%6d %10d %s", kinds[k].n, kinds[k].b, k)
	}
	t.Logf("TOTAL %d files %d bytes", total.n, total.b)
}
