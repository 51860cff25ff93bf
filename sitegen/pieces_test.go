package sitegen

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// board is a file of so many lines, each as long as a host's.
func boardFile(lines int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, lines)
	for i := range out {
		line := fmt.Appendf(nil, `{"name":"gpu%04d"`, i)
		for range 200 {
			line = fmt.Appendf(line, `,"utilization_gpu_percent":%d`, r.IntN(100))
		}
		out[i] = append(line, "}\n"...)
	}
	return out
}

func unzip(t *testing.T, file []byte) []byte {
	t.Helper()
	r, err := stdgzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false) // browsers read one member and no more
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestPiecesAreOneGzipFile(t *testing.T) {
	w, err := newPieceWriter(gzipLevel)
	if err != nil {
		t.Fatal(err)
	}
	lines := boardFile(300)
	var p pieces
	best, err := newPieceWriter(9)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "one byte": {'a'}, "a board": bytes.Join(lines, nil),
		"one long line":      bytes.Repeat([]byte("no line ends here "), 60_000),
		"only line ends":     bytes.Repeat([]byte{'\n'}, 1<<20),
		"as long as a piece": bytes.Repeat([]byte("0123456\n"), pieceLeast/8),
	} {
		for round := range 2 { // the second one from what is kept
			p.begin()
			file, err := p.gzip(w, [][]byte{content})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(unzip(t, file), content) {
				t.Errorf("%s, round %d: it comes back changed", name, round)
			}
			small, err := p.gzip(best, [][]byte{content})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(unzip(t, small), content) {
				t.Errorf("%s, round %d: at the best level it comes back changed", name, round)
			}
		}
	}
}

// next is a generation of one file: how many of its pieces were made anew.
func (p *pieces) next(t *testing.T, w *pieceWriter, content ...[]byte) (fresh, all int) {
	t.Helper()
	p.begin()
	file, err := p.gzip(w, content)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unzip(t, file), bytes.Join(content, nil)) {
		t.Fatal("it comes back changed")
	}
	for key := range p.now {
		if _, kept := p.kept[key]; !kept {
			fresh++
		}
	}
	return fresh, len(p.now)
}

func TestPiecesOfWhatChangedAloneAreMade(t *testing.T) {
	w, err := newPieceWriter(gzipLevel)
	if err != nil {
		t.Fatal(err)
	}
	lines := boardFile(600)
	var p pieces
	made := func() (fresh, all int) { return p.next(t, w, bytes.Join(lines, nil)) }
	if fresh, all := made(); fresh != all || all < 20 {
		t.Errorf("at first %d of %d pieces were made", fresh, all)
	}
	if fresh, _ := made(); fresh != 0 {
		t.Errorf("%d pieces of an equal file were made again", fresh)
	}
	lines[300] = []byte("{\"name\":\"gpu0300\",\"state\":\"down\"}\n")
	if fresh, all := made(); fresh == 0 || fresh > all/4 {
		t.Errorf("one line changed, and %d of %d pieces were made again", fresh, all)
	}
	lines = append([][]byte{[]byte("a line at the top\n")}, lines...)
	if fresh, all := made(); fresh == 0 || fresh > all/4 {
		t.Errorf("one line more at the top, and %d of %d pieces were made again", fresh, all)
	}
}

// A file in parts is cut where its parts end, and only what changed is made
// again, with the pieces that have it in their window.
func TestPiecesOfPartsThatStay(t *testing.T) {
	w, err := newPieceWriter(gzipLevel)
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{[]byte("the time\n")}
	for _, line := range boardFile(600) {
		parts = append(parts, line, []byte(",\n"))
	}
	var p pieces
	made := func() (fresh, all int) { return p.next(t, w, parts...) }
	if fresh, all := made(); fresh != all || all < 20 {
		t.Errorf("at first %d of %d pieces were made", fresh, all)
	}
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"the first part changed", func() { parts[0] = []byte("another time\n") }},
		{"a part in the middle changed", func() { parts[501] = []byte("{\"state\":\"down\"}\n") }},
		{"two parts were exchanged", func() { parts[701], parts[703] = parts[703], parts[701] }},
		{"a part came at the top", func() { parts = append([][]byte{[]byte("news\n")}, parts...) }},
	} {
		step.change()
		if fresh, all := made(); fresh == 0 || fresh > all/5 {
			t.Errorf("%s, and %d of %d pieces were made again", step.name, fresh, all)
		}
	}
}

// TestPiecesAreHardlyLarger holds a file of pieces against the same in one go.
func TestPiecesAreHardlyLarger(t *testing.T) {
	content := bytes.Join(boardFile(600), nil)
	for level, most := range map[int]float64{gzipLevel: 1.03, gzip.BestCompression: 1.03} {
		w, err := newPieceWriter(level)
		if err != nil {
			t.Fatal(err)
		}
		var p pieces
		p.begin()
		file, err := p.gzip(w, [][]byte{content})
		if err != nil {
			t.Fatal(err)
		}
		var whole bytes.Buffer
		z, err := gzip.NewWriterLevel(&whole, level)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if got := float64(len(file)) / float64(whole.Len()); got > most {
			t.Errorf("at level %d pieces take %.3f times as much", level, got)
		}
	}
}
