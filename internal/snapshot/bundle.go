package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
)

// header is what a file says about itself: a bundle at the beginning of its document, an hour
// file in its first line. Checksum is "sha256:" and a hex digest: of the bytes of snapshot and then
// those of samples, as they are in the document; or of all bytes after the first line, where each
// line is an array of blocks (see block).
type header struct {
	Schema   int    `json:"schema"`
	Host     string `json:"host"`
	BootID   string `json:"boot_id"`
	Hour     Time   `json:"hour,omitzero"` // of an hour file
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Count    int    `json:"count,omitempty"` // of the samples of an hour file
	Checksum string `json:"checksum"`
}

// bundle is latest.json.gz: gzip of one JSON document.
type bundle struct {
	header
	Snapshot jsontext.Value `json:"snapshot"`
	Samples  jsontext.Value `json:"samples"`
}

const beforeSnapshot = `,"snapshot":`

// lenient are the options for reading what nodes write: unknown fields are ignored, names
// are case-sensitive, repeated names are refused, and Text escapes invalid UTF-8 later.
var lenient = jsonv2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsonv2.RejectUnknownMembers(false))

// EncodeBundle returns the content of latest.json.gz.
func EncodeBundle(b *Bundle) ([]byte, error) {
	if b.Snapshot == nil {
		return nil, fmt.Errorf("encoding bundle of %s: it has no snapshot", b.Host)
	}
	s := *b.Snapshot
	s.Schema, s.Host, s.BootID = Schema, b.Host, b.BootID
	snap, err := json.Marshal(&s)
	if err != nil {
		return nil, fmt.Errorf("encoding snapshot of %s: %w", b.Host, err)
	}
	samples, err := EncodeSamples(b.Samples)
	if err != nil {
		return nil, fmt.Errorf("encoding samples of %s: %w", b.Host, err)
	}
	first := s.Seq
	if len(b.Samples) > 0 {
		first = b.Samples[0].Seq
	}
	head, _ := json.Marshal(header{ // texts and numbers alone
		Schema: Schema, Host: b.Host, BootID: b.BootID, FirstSeq: first, LastSeq: s.Seq,
		Checksum: checksum(snap, samples),
	})
	// The parts are joined here, because json.Marshal would validate them again.
	return compress(head[:len(head)-1], []byte(beforeSnapshot), snap, []byte(`,"samples":`), samples, []byte(`}`))
}

// EncodeHour returns the content of an hour file.
func EncodeHour(h *Hour) ([]byte, error) {
	if len(h.Samples) == 0 {
		return nil, fmt.Errorf("encoding an hour of %s: it has no samples", h.Host)
	}
	if len(h.Samples) > MaxSamples {
		return nil, refuse(BadTooMany, "an hour of %d samples, and %d is the most", len(h.Samples), MaxSamples)
	}
	samples, err := EncodeSamples(h.Samples)
	if err != nil {
		return nil, fmt.Errorf("encoding an hour of %s: %w", h.Host, err)
	}
	lines := append(samples, '\n')
	head, err := json.Marshal(header{
		Schema: Schema, Host: h.Host, BootID: h.BootID, Hour: TimeOf(h.Start.Truncate(time.Hour)),
		FirstSeq: h.Samples[0].Seq, LastSeq: h.Samples[len(h.Samples)-1].Seq,
		Count: len(h.Samples), Checksum: checksum(lines),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding an hour of %s: %w", h.Host, err)
	}
	return compress(head, []byte{'\n'}, lines)
}

// DecodeBundle reads latest.json.gz. An invalid file is a [DecodeError]; impossible
// readings become unknown and are reported in the snapshot's Errors.
func DecodeBundle(r io.Reader) (*Bundle, error) {
	data, err := expand(r)
	if err != nil {
		return nil, err
	}
	end, err := ofNode().document(data)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data[end:])) > 0 {
		return nil, refuse(BadTrailing, "something follows the document")
	}
	var head bundle
	if err := jsonv2.Unmarshal(data[:end], &head, lenient); err != nil {
		return nil, parseError(data[:end], err)
	}
	b := &Bundle{}
	if b.Host, b.BootID, err = identity(head.Schema, head.Host, head.BootID); err != nil {
		return nil, err
	}
	if err := head.verify(head.Snapshot, head.Samples); err != nil {
		return nil, err
	}
	snap := &Snapshot{}
	if err := jsonv2.Unmarshal(head.Snapshot, snap, lenient); err != nil {
		return nil, refuse(BadParse, "reading the snapshot: %w", err)
	}
	switch {
	case snap.Host != head.Host || snap.BootID != head.BootID || snap.Seq != head.LastSeq:
		return nil, refuse(BadParse, "the snapshot is not the one that the bundle names")
	case snap.Seq < 1 || snap.Seq > maxSeq:
		return nil, refuse(BadParse, "the snapshot's number is %d", snap.Seq)
	case snap.CollectedAt.IsZero():
		return nil, refuse(BadTime, "the snapshot does not say when it was collected")
	}
	samples, bad, err := decodeBlocks(nil, head.Samples)
	if err != nil {
		return nil, err
	}
	if n := len(samples); n > 0 && (samples[0].Seq != head.FirstSeq || samples[n-1].Seq > head.LastSeq) {
		return nil, refuse(BadParse, "the samples are not those that the bundle names")
	}
	snap.Schema, snap.Host, snap.BootID = head.Schema, b.Host, b.BootID
	found := snap.Validate()
	if bad > 0 {
		found = append(found, NewProblem(BadRange, "%d readings of earlier samples cannot be", bad))
	}
	snap.Errors = append(snap.Errors, found...)
	b.Snapshot, b.Samples = snap, samples
	return b, nil
}

// headBytes is more than a bundle has before its snapshot.
const headBytes = 4 << 10

// BundleHost returns the host that the head of a bundle names; "" for any other file. It
// reads no more than the head, and does not check the rest.
func BundleHost(r io.Reader) string {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return ""
	}
	data, _ := io.ReadAll(io.LimitReader(zip, headBytes)) // the head may be there although the rest is damaged
	text, _, ok := bytes.Cut(data, []byte(beforeSnapshot))
	var head header
	if !ok || jsonv2.Unmarshal(append(text, '}'), &head, lenient) != nil {
		return ""
	}
	host, _, _ := identity(head.Schema, head.Host, head.BootID)
	return host
}

// DecodeHour reads an hour file. An invalid one is a [DecodeError].
func DecodeHour(r io.Reader) (*Hour, error) {
	data, err := expand(r)
	if err != nil {
		return nil, err
	}
	first, lines, ok := bytes.Cut(data, []byte{'\n'})
	if _, err := ofNode().document(first); err != nil {
		return nil, err
	}
	var head header
	if err := jsonv2.Unmarshal(first, &head, lenient); err != nil {
		return nil, parseError(first, err)
	}
	if !ok {
		return nil, refuse(BadParse, "nothing follows the first line")
	}
	h := &Hour{Start: head.Hour.Time}
	if h.Host, h.BootID, err = identity(head.Schema, head.Host, head.BootID); err != nil {
		return nil, err
	}
	if h.Start.IsZero() || !h.Start.Equal(h.Start.Truncate(time.Hour)) {
		return nil, refuse(BadTime, "it does not say which hour it is of")
	}
	if err := head.verify(lines); err != nil {
		return nil, err
	}
	for len(lines) > 0 {
		var line []byte
		if line, lines, ok = bytes.Cut(lines, []byte{'\n'}); !ok {
			return nil, refuse(BadParse, "the last line has no end")
		}
		if _, err := ofNode().document(line); err != nil {
			return nil, err
		}
		if h.Samples, _, err = decodeBlocks(h.Samples, line); err != nil {
			return nil, err
		}
	}
	n := len(h.Samples)
	if n == 0 || n != head.Count || h.Samples[0].Seq != head.FirstSeq || h.Samples[n-1].Seq != head.LastSeq {
		return nil, refuse(BadParse, "the samples are not those that the first line names")
	}
	return h, nil
}

// verify compares the checksum with that of the content.
func (h *header) verify(parts ...[]byte) error {
	if got := checksum(parts...); got != h.Checksum {
		said := Clip(Text(h.Checksum, MaxNameBytes), 15)
		return refuse(BadChecksum, "the checksum says %s, the content %s", said, Clip(got, 15))
	}
	return nil
}

// tooNew is the error for a file of a later version.
func tooNew(schema int) error {
	return refuse(BadSchema, "it has schema %d, and this version reads up to %d: update this side first", schema,
		Schema)
}

// identity checks schema, host and boot id of a file.
func identity(schema int, host, boot string) (string, string, error) {
	switch {
	case schema > Schema:
		return "", "", tooNew(schema)
	case schema < 1:
		return "", "", refuse(BadSchema, "it does not say its schema")
	}
	name, err := ParseHost(host)
	if err != nil {
		return "", "", &DecodeError{Code: BadHost, Err: err}
	}
	if !ValidBoot(boot) {
		return "", "", refuse(BadParse, "the boot id is %q", Clip(Text(boot, MaxNameBytes), 40))
	}
	return name, boot, nil
}

// ValidBoot reports whether s may be a boot id: 1 to 64 letters, digits and hyphens.
func ValidBoot(s string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	return len(s) > 0 && len(s) <= 64 && strings.Trim(s, plain) == ""
}

// parseError returns the error for a document that cannot be parsed. A newer schema
// number explains why.
func parseError(data []byte, err error) error {
	var head struct {
		Schema int `json:"schema"`
	}
	if jsonv2.Unmarshal(data, &head, lenient) == nil && head.Schema > Schema {
		return tooNew(head.Schema)
	}
	return refuse(BadParse, "reading the document: %w", err)
}

func checksum(parts ...[]byte) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
