package atomicfile

import (
	"bytes"
	"testing"
)

// TestWhatIsLeftToWrite: the kernel may take less than it was given, and what it
// was given stays as it is.
func TestWhatIsLeftToWrite(t *testing.T) {
	all := parts{[]byte("ab"), nil, []byte("cde"), {}, []byte("f"), []byte("gh")}
	const first = 5 // were given to it
	whole := bytes.Join(all, nil)
	for wrote := range len("abcdef") + 1 {
		if got := bytes.Join(all.behind(wrote, first), nil); string(got) != string(whole[wrote:]) {
			t.Errorf("behind %d bytes: %q, want %q", wrote, got, whole[wrote:])
		}
	}
	if now := bytes.Join(all, nil); !bytes.Equal(now, whole) {
		t.Errorf("the parts are %q now", now)
	}
}
