package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"fmt"
)

// A Kept carries the help from one process to the next, for those that make one
// generation each. The zero Data is that of the first.
type Kept struct {
	// Program tells one build of the program, whose documentation it is, from
	// every other.
	Program string
	// Data is what an earlier process made. It is used only if it is whole and of
	// the same program, templates and settings.
	Data []byte
	// Made is set when Data was made anew, and should be kept.
	Made bool
}

// keptHelp is a help as it is kept.
type keptHelp struct {
	Files []File
	Codes map[string]string
}

// open returns the help that was kept, nil if it is not that of this style.
func (k *Kept) open(style [32]byte) *help {
	if k == nil || len(k.Data) < sha256.Size {
		return nil
	}
	payload := k.Data[sha256.Size:]
	var kept keptHelp
	if sum := k.seal(style, payload); !bytes.Equal(sum[:], k.Data[:sha256.Size]) || gob.NewDecoder(bytes.NewReader(payload)).Decode(&kept) != nil {
		return nil
	}
	return &help{files: kept.Files, codes: kept.Codes}
}

// keep replaces what was kept.
func (k *Kept) keep(style [32]byte, made *help) error {
	if k == nil {
		return nil
	}
	var payload bytes.Buffer
	if err := gob.NewEncoder(&payload).Encode(keptHelp{made.files, made.codes}); err != nil {
		return fmt.Errorf("keeping the help: %w", err)
	}
	sum := k.seal(style, payload.Bytes())
	k.Data, k.Made = append(sum[:], payload.Bytes()...), true
	return nil
}

// seal is a digest of the bytes and of all that they were made of: one that
// differs says that they are damaged, or not what would be made now.
func (k *Kept) seal(style [32]byte, payload []byte) [sha256.Size]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "help 2 %q %x\n", k.Program, style)
	sum.Write(payload)
	return [sha256.Size]byte(sum.Sum(nil))
}
