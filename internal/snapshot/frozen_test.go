package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"gpuboard/internal/snapshot"
)

// Nodes and the web host are not upgraded in the same minute. The files in
// testdata/frozen were written once by the program that introduced a schema,
// and are never written again: every later reader has to understand them.

func frozen(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/frozen/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOldNodesAreUnderstood(t *testing.T) {
	b, err := snapshot.DecodeBundle(bytes.NewReader(frozen(t, "1-latest.json.gz")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := snapshot.DecodeHour(bytes.NewReader(frozen(t, "1-hour.jsonl.gz")))
	if err != nil {
		t.Fatal(err)
	}
	if b.Host != "europa" || h.Host != "europa" || len(h.Samples) != len(b.Samples) || len(h.Samples) != 11 {
		t.Fatalf("bundle of %s with %d samples, hour of %s with %d", b.Host, len(b.Samples), h.Host, len(h.Samples))
	}
	// What a reader of then understood, a reader of now does too; it may know more.
	var want struct {
		Snapshot map[string]any
		Samples  []snapshot.Sample
	}
	if err := json.Unmarshal(frozen(t, "1-expected.json"), &want); err != nil {
		t.Fatal(err)
	}
	now, err := json.Marshal(b.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(now, &got); err != nil {
		t.Fatal(err)
	}
	contains(t, "snapshot", want.Snapshot, got)
	for i, s := range want.Samples {
		if h.Samples[i].Seq != s.Seq || !h.Samples[i].At.Equal(s.At) || len(h.Samples[i].GPUs) != len(s.GPUs) ||
			h.Samples[i].Load != nil || b.Samples[i].MemoryUsed != nil { // which they did not tell
			t.Errorf("sample %d: %+v, want %+v", i, h.Samples[i], s)
		}
	}
}

// contains reports whatever of want is missing or different in got.
func contains(t *testing.T, path string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s is %v, want an object", path, got)
			return
		}
		for k, v := range w {
			contains(t, path+"."+k, v, g[k])
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s has %d elements, want %d", path, len(g), len(w))
			return
		}
		for i := range w {
			contains(t, path+"[]", w[i], g[i])
		}
	default:
		if want != got {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// TestNewerNodesAreUnderstood is the other direction: a node that was upgraded
// first adds fields to the same schema, which pass; a schema of the future is
// refused in words, and costs nothing but that host.
func TestNewerNodesAreUnderstood(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(frozen(t, "1-latest.json.gz")))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(doc []byte) io.Reader {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(doc); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	newer := bytes.Replace(doc, []byte(`{"schema":1,`), []byte(`{"schema":1,"of_tomorrow":{"a":[1,2]},`), 1)
	if bytes.Equal(newer, doc) {
		t.Fatal("the document does not begin as expected")
	}
	if b, err := snapshot.DecodeBundle(pack(newer)); err != nil || len(b.Snapshot.GPUs) != 4 {
		t.Errorf("a field of tomorrow: %v", err)
	}
	future := bytes.Replace(doc, []byte(`{"schema":1,`), []byte(`{"schema":2,`), 1)
	_, err = snapshot.DecodeBundle(pack(future))
	var refused *snapshot.DecodeError
	if !errors.As(err, &refused) || refused.Code != "bad:schema" {
		t.Errorf("a schema of the future: %v, want bad:schema", err)
	}
}
