// Package costtest is what a test says of the memory that reading a document costs.
package costtest

import (
	"runtime"
	"strings"
	"testing"
)

// begin is what any reader may take to begin with: buffers, tables of gzip, a client, and what
// is made once in a process, such as regular expressions.
const begin = 2 << 20

// Check fails the test if read takes more than perByte bytes of memory for each
// of n bytes of a document. All that is allocated counts, also what is garbage at once.
func Check(t testing.TB, n, perByte int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; cost > uint64(begin+perByte*n) {
		t.Errorf("%d bytes cost %d bytes of memory, %d for each; %d is the most", n, cost, cost/uint64(max(n, 1)),
			perByte)
	}
}

// length is so many bytes that begin is a small part of what a list of this length may cost.
const length = 300_000

// Lists returns documents of about 300 KB with a long list of values that are as small as they
// can be, or as close together as a document may have them: one in 16, 32, 48 or 64 bytes.
func Lists(before, after string) [][]byte {
	var docs [][]byte
	for _, value := range []string{`{}`, `{}` + strings.Repeat(" ", 13), `{}` + strings.Repeat(" ", 29),
		`{}` + strings.Repeat(" ", 45), `{}` + strings.Repeat(" ", 61), `[]`, `""`, `0`, `0   `, `null`} {
		list := strings.Repeat(value+",", length/(len(value)+1)) + value
		docs = append(docs, []byte(before+"["+list+"]"+after))
	}
	return docs
}
