package source

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/sitegen/data"
)

func optionsOf(t testing.TB, values map[string]string) Options {
	return Options{Config: settingsOf(t, values), Version: "1", Now: func() time.Time { return sitetest.Now }}
}

// TestASiteInABucket is read as one elsewhere is, and what a store says is said with what to do.
func TestASiteInABucket(t *testing.T) {
	check := func(t *testing.T) {
		s := newSites(t, true, "s3://gpus/lab", "s3://gpus/lab/", "s3://gpus/none", "s3://nowhere/lab")
		for i, one := range s.Read(t.Context(), sitetest.Now, nil) {
			got := one.Fault
			if one.Summary != nil {
				got = fmt.Sprint(one.Summary.Own.Totals.GPUs.Free(), one.URL)
			}
			want := []string{"3", "3", "give the bucket and prefix that publish_to: of that board has",
				"create the bucket nowhere"}[i]
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", one.Place, got, want)
			}
		}
		o := optionsOf(t, map[string]string{"sites": "north=s3://gpus/lab", "site": t.TempDir()})
		at, there, err := OpenCluster(t.Context(), o, "", []string{"north/gpu01"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := at.Read(t.Context())
		if err != nil || len(p.Board.Hosts) != 2 || there[0] != "gpu01" || !at.Remote() || at.Cluster != "north/" {
			t.Errorf("%+v %q: %v", p, there, err)
		}
		if _, err := Open(o, "s3:///lab"); err == nil || failure.Explain(err).Exit != failure.ExitUsage {
			t.Errorf("no bucket: %v", err)
		}
	}
	t.Run("fake", func(t *testing.T) {
		store := s3test.Start(t, "gpus")
		for path, content := range (sitetest.Site{}).Files(t) {
			store.Put("lab/"+path, string(content))
		}
		check(t)
		store.Put("lab/"+data.SummaryPath, "<html>")
		if one := newSites(t, true, "s3://gpus/lab").Read(t.Context(), sitetest.Now,
			nil)[0]; !strings.Contains(one.Fault, "s3://gpus/lab") {
			t.Errorf("something else lies there: %+v", one)
		}
		store.Fault(func(int, *http.Request) int { return http.StatusForbidden })
		one := newSites(t, true, "s3://gpus/lab").Read(t.Context(), sitetest.Now, nil)[0]
		if !strings.Contains(one.Fault, "check AWS_ACCESS_KEY_ID") {
			t.Errorf("refused: %q", one.Fault)
		}
	})
	t.Run("gateway", func(t *testing.T) {
		_, dir := s3test.Gateway(t, "gpus")
		sitetest.Site{}.Write(t, filepath.Join(dir, "lab"))
		check(t)
	})
}

// showing is a summary of a board that shows another one with the same numbers.
func showing(summary, id string) string {
	same := summary[strings.Index(summary, `"totals"`):strings.LastIndex(summary, `,"sites"`)]
	return strings.Replace(summary, `"sites":null`, `"sites":{"ids":["`+id+`"],"depth":1,`+same+`}`, 1)
}

// TestClustersOfClusters: each board once, by the way that is found first, and only where something may be.
func TestClustersOfClusters(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	north := string(sitetest.Site{}.Files(t)[data.SummaryPath])
	id := func(s, id string) string { return strings.Replace(s, `"id":null`, `"id":"`+id+`"`, 1) }
	sites := map[string]string{}
	here := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		if content, ok := sites[r.URL.Path]; ok {
			_, _ = io.WriteString(w, content)
			return
		}
		http.NotFound(w, r)
	})
	// front shows north, and itself by another name; both show front, and far shows nothing.
	others := showing(north, "b2")
	list := func(names ...string) string {
		var docs []string
		for _, name := range names {
			called, place, _ := strings.Cut(name, "=")
			docs = append(docs, fmt.Sprintf(`{"name":%q,"url":%q}`, called, here+"/"+place+"/"))
		}
		return `{"schema_version":1,"sites":[` + strings.Join(docs, ",") + `]}`
	}
	sites["/north/"+data.SummaryPath] = id(north, "b2")
	sites["/front/"+data.SummaryPath] = id(others, "f1")
	sites["/front/"+data.SitesPath] = list("west=north", "me=front", "gone=gone")
	o := optionsOf(t,
		map[string]string{"sites": "front=" + here + "/front/,north=" + here + "/north/", "site": t.TempDir()})
	names := func(wanted func(*board.Sums) bool) string {
		asked = nil
		clusters, err := Clusters(t.Context(), o, wanted)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range clusters {
			got = append(got,
				strings.TrimSpace(
					fmt.Sprintf("%s %s %s", c.Source.Cluster, c.State, strings.Repeat("!", min(1, len(c.Away))))))
		}
		return strings.Join(got, ", ")
	}
	if got := names(func(*board.Sums) bool { return true }); got != "front/ up, front/west/ up, front/gone/ never !" {
		t.Error(got)
	}
	if got := names((&board.Request{Model: "h100"}).MayBeIn); got != "front/ up, north/ up" ||
		strings.Contains(strings.Join(asked, " "), "sites.json") {
		t.Error(got, asked)
	}
	delete(sites, "/front/"+data.SitesPath)
	if got := names(func(*board.Sums) bool { return true }); got != "front/ up !, north/ up" {
		t.Error(got)
	}
	// That a host is behind several is said by its path, and a cluster that is none is told with those that are.
	sites["/front/"+data.SitesPath] = list("west=north")
	s, there, err := OpenCluster(t.Context(), o, "", []string{"front/west/gpu01:0", "front/west/"})
	if err != nil || s.Name != here+"/north/" || strings.Join(there, " ") != "gpu01:0" {
		t.Errorf("%+v %q: %v", s, there, err)
	}
	if _, _, err := OpenCluster(t.Context(), o, "", []string{"front/wset/gpu01"}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "west"`) {
		t.Error(err)
	}
	for host, want := range map[string]string{
		"gpu01": "", "gpu01:MIG-GPU-1/2/0": "", "a/gpu01:MIG-GPU-1/2/0": "a/", "a/b/": "a/b/", "/srv/a": "", "..": "",
		"A/*": "A/",
	} {
		if got, _ := CutCluster(host); got != want {
			t.Errorf("%s is of %q, want %q", host, got, want)
		}
	}
}

// TestABoardThatNamesBoardsWithoutEnd is left soon.
func TestABoardThatNamesBoardsWithoutEnd(t *testing.T) {
	var asked atomic.Int64
	summary := showing(string(sitetest.Site{}.Files(t)[data.SummaryPath]), "c3")
	var here string
	here = sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if strings.HasSuffix(r.URL.Path, "summary.json") {
			_, _ = io.WriteString(w, strings.Replace(summary, `"id":null`, fmt.Sprintf(`"id":"%016x"`, n), 1))
			return
		}
		_, _ = io.WriteString(w, `{"schema_version":1,"sites":[`)
		for i := range 100 {
			_, _ = fmt.Fprintf(w, `%s{"name":"s%d","url":"%s/%d/"}`, strings.Repeat(",", min(i, 1)), i, here,
				asked.Load()*1000+int64(i))
		}
		_, _ = io.WriteString(w, `]}`)
	})
	o := optionsOf(t, map[string]string{"sites": "evil=" + here + "/", "site": t.TempDir()})
	list, err := Clusters(t.Context(), o, func(*board.Sums) bool { return true })
	if n := asked.Load(); err != nil || len(list) > board.MaxBoards+1 || n > 1500 {
		t.Errorf("%d boards, %d requests: %v", len(list), n, err)
	}
}

// TestSendForm: only what the form itself answers is believed, and the password goes nowhere else.
func TestSendForm(t *testing.T) {
	elsewhere := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("it went to %s", r.URL) })
	answer := func(w http.ResponseWriter) {}
	var got *http.Request
	here := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_ = r.ParseForm()
			got = r
		}
		answer(w)
	})
	s := &Source{opt: optionsOf(t, nil), cfg: settingsOf(t, map[string]string{"site_timeout": "2s"}), Cluster: "north/"}
	if err := s.at(strings.Replace(here, "http://", "http://eva:secret@", 1) + "/lab/"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status     int
		kind, to   string
		said, want string
		exit       int
	}{
		{303, "", "?saved=a1&saved=b2", "", "a1 b2", 0},
		{303, "", elsewhere + "/login", "", "it answers 303", 1},
		{302, "", elsewhere + "/?saved=a1", "", "it answers 302", 1},
		{200, "text/html", "", "<html>saved", "it answers 200", 1},
		{409, "text/plain", "", "Not saved.\nby ada\n", "Not saved.\nby ada", 1},
		{503, "text/plain", "", "busy", "busy", 75},
		{429, "text/plain", "", "wait", "wait", 75},
		{404, "text/plain", "", "404", "there is no gpu01:0 gpu02", 2},
		{401, "text/plain", "", "who", "it answers 401", 2},
	} {
		answer = func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", c.kind)
			if c.to != "" {
				w.Header().Set("Location", c.to)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.said)
		}
		saved, err := s.SendForm(t.Context(), []string{"gpu01:0", "gpu02"}, url.Values{"action": {"book"}})
		said, exit := strings.Join(saved, " "), 0
		if err != nil {
			said, exit = err.Error(), failure.Explain(err).Exit
		}
		if !strings.Contains(said, c.want) || exit != c.exit || strings.Contains(said, "secret") {
			t.Errorf("%d %s: %q, exit %d", c.status, c.to, said, exit)
		}
	}
	user, password, _ := got.BasicAuth()
	if got.URL.Path != "/lab/book/" || strings.Join(got.URL.Query()["at"], " ") != "gpu01:0 gpu02" ||
		got.PostForm.Get("action") != "book" ||
		got.Header.Get("Origin") != here || user != "eva" || password != "secret" {
		t.Errorf("it sent %+v", got)
	}
}

// TestWhereTheFormIs: at the site, or where the site says that it is, if it answers there.
func TestWhereTheFormIs(t *testing.T) {
	able := `{"booking": true, "name": "eva"}`
	here := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lab/book/capabilities.json" {
			http.NotFound(w, r)
		}
		_, _ = io.WriteString(w, able)
	})
	dir := t.TempDir()
	sitetest.Site{}.Write(t, dir)
	for _, c := range []struct{ from, url, able, want string }{
		{here + "/lab/", "", able, here + "/lab/book/?at=gpu01%3A0 eva"},
		{dir, here + "/lab/", able, here + "/lab/book/?at=gpu01%3A0 eva"},
		{dir, "", able, "none"},
		{here, "", able, "none"},
		{here + "/lab/", "", `{"booking": false}`, "none"},
		{here + "/lab/", "", `<html>`, "none"},
	} {
		able = c.able
		s, err := Open(optionsOf(t, nil), c.from)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if form, name := s.Form(t.Context(), &board.Summary{URL: c.url}); form != nil {
			got = form.FormAddress([]string{"gpu01:0"}) + " " + name
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
