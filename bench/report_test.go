package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		r    row
		want string
	}{
		"least below":    {row{values: []float64{40, 60, 90}, target: 50, least: true}, "met"},
		"median above":   {row{values: []float64{40, 60, 90}, target: 50}, "**1.2 times**"},
		"at the target":  {row{values: []float64{50}, target: 50}, "met"},
		"without target": {row{values: []float64{50}}, ""},
		"not measured":   {row{target: 50}, ""},
	} {
		if got := c.r.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A goal as a ratio is met where the whole machine is slower.
func TestATargetAsARatio(t *testing.T) {
	slow := row{values: []float64{20, 30}, least: true}
	for name, c := range map[string]struct {
		r    row
		o    rival
		want string
	}{
		"all is slower":      {slow, rival{"probe", 18, 1.25}, "probe: 18.0; asked 1.25 of it, reached 1.11: met"},
		"only we are slower": {slow, rival{"probe", 8, 1.25}, "probe: 8; asked 1.25 of it, reached 2.5: **2.0 times**"},
		"by the median": {row{values: []float64{1, 30, 31}}, rival{"probe", 10, 1},
			"probe: 10.0; asked 1 of it, reached 3: **3.0 times**"},
		"nothing was asked": {slow, rival{"probe", 10, 0}, "probe: 10.0 (ratio 2)"},
		"not measured":      {slow, rival{"probe", 0, 8}, ""},
	} {
		if got := c.r.ratio(c.o); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPacesAreMeasured: all kinds of work take time, and only the bench's own directory is written to.
func TestPacesAreMeasured(t *testing.T) {
	s := &suite{dir: t.TempDir(), program: "/bin/true"}
	all, err := s.machineSpeeds()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if len(p.ms) != 7 || p.ms[6] <= 0 || p.ms[0] > p.ms[6] {
			t.Errorf("%s took %v", p.what, p.ms)
		}
	}
	s.program = filepath.Join(s.dir, "missing")
	if _, err := s.machineSpeeds(); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestNumbersKeepThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123: "0.0123", 5: "5", 10: "10.0", 41.26: "41.3", 1234.5: "1234",
		0.5: "0.5"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

// A measure that was not taken is in the report all the same, and foreign text
// breaks neither the table nor the plot.
func TestReportIsWhole(t *testing.T) {
	s := &suite{before: []machineSpeed{{"fixed | work", []float64{1, 2, 3}}}}
	s.add(
		row{id: "X1", what: "this | that <&>", unit: "ms", values: []float64{3, 1, 2}, target: 1, least: true,
			besides: []beside{{"scp", 4}},
			rivals:  []rival{{"probe | its", 2, 2}}})
	s.add(row{id: "X2", what: "not measured: no\nprogram"})
	dir := t.TempDir()
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile(filepath.Join(dir, "REPORT.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| X1 | this / that <&> | 1 | 2 | 3 | ms | 1 | met | probe / its: 2; asked 2 of it, reached 0.5: met | scp: 4 (ratio 0.25) |\n",
		"| X2 | not measured: no program |", "| fixed / work | 1, 2 | unknown |\n"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	plot, err := os.Open(filepath.Join(dir, "report.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer plot.Close()
	bars := 0
	for d := xml.NewDecoder(plot); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 3 { // the ground, and one result for each of its two goals
		t.Errorf("%d rectangles in the plot, want 3", bars)
	}
}

// TestRemarksStayInTheReport: what people wrote about the numbers is in the next report, too.
func TestRemarksStayInTheReport(t *testing.T) {
	dir := t.TempDir()
	s := &suite{remarks: filepath.Join(dir, "NOTES.md")}
	for _, remarks := range []string{"", "## What people know\n\n- it was a Friday\n"} {
		if remarks != "" {
			if err := os.WriteFile(s.remarks, []byte(remarks), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.write(dir); err != nil {
				t.Fatal(err)
			}
			report, err := os.ReadFile(filepath.Join(dir, "REPORT.md"))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(report), "it was a Friday"); n != strings.Count(remarks, "Friday") ||
				!strings.HasSuffix(string(report), remarks) {
				t.Errorf("the report says it %d times:\n%s", n, report)
			}
		}
	}
	if kept, err := os.ReadFile(s.remarks); err != nil || !strings.Contains(string(kept), "Friday") {
		t.Errorf("the remarks are %q, %v", kept, err)
	}
}

func TestRatesOfWrk(t *testing.T) {
	for out, want := range map[string][2]float64{
		"  62511 requests in 2.00s, 1MB read\nRequests/sec:  31234.56\nTransfer/sec: 4MB\n": {31234.56, 62511},
	} {
		if rate, count, err := rates([]byte(out)); err != nil || rate != want[0] || count != want[1] {
			t.Errorf("%q: %v of %v, %v, want %v", out, rate, count, err, want)
		}
	}
	for _, out := range []string{"", "unable to connect", "Requests/sec: 5\n",
		"0 requests in 1.00s\nRequests/sec: 0.00\n"} {
		if rate, count, err := rates([]byte(out)); err == nil {
			t.Errorf("%q: %v of %v, want an error", out, rate, count)
		}
	}
}

// A page counts only where the server answers as it was asked: what is not there
// would be cheap.
func TestOtherResponsesAreErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		switch {
		case r.URL.Path != "/":
			http.NotFound(w, r)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		}
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		p    page
		good bool
	}{
		"whole":                  {page{url: server.URL + "/"}, true},
		"not modified":           {page{url: server.URL + "/", etag: `"1"`}, true},
		"missing":                {page{url: server.URL + "/none"}, false},
		"modified in the middle": {page{url: server.URL + "/", etag: `"0"`}, false},
	} {
		if _, err := c.p.apart(1, 1); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgramsAreCountedOnce(t *testing.T) {
	trace := `101 execve("/bin/sh", ["sh"], 0x7ffd /* 9 vars */) = 0
101 execve("/bin/cat", ["cat", "a file = 0"], 0x7ffd /* 9 vars */) = 0
102 execve("/sbin/ps", ["ps"], 0x7ffd /* 9 vars */) = -1 ENOENT (No such file or directory)
102 execve("/bin/ps", ["ps"], 0x7ffd /* 9 vars */ <unfinished ...>
103 execve("/bin/missing", ["missing"], 0x7ffd /* 9 vars */) = -1 ENOENT (No such file or directory)
102 <... execve resumed>) = 0
`
	if got := executed(trace); got != 2 {
		t.Errorf("%d programs, want the shell that became cat, and ps", got)
	}
}

func TestFailedHarnessIsAnError(t *testing.T) {
	s := &suite{dir: t.TempDir()}
	var order []string
	err := s.with(func(h *harness) error {
		h.Cleanup(func() { order = append(order, "first") })
		h.Cleanup(func() { order = append(order, "second") })
		h.Skip("there is no sshd")
		return nil
	})
	if err == nil || err.Error() != "there is no sshd" {
		t.Errorf("error %v, want the reason", err)
	}
	if strings.Join(order, " ") != "second first" {
		t.Errorf("cleaned up in the order %v", order)
	}
	if err := s.with(func(*harness) error { return nil }); err != nil {
		t.Error(err)
	}
}
