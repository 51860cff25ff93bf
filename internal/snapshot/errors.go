package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Codes for why a file of a drop is refused or changed. They are stable: pages,
// health.json and tests use them.
const (
	BadEmpty    = "bad:empty"    // no bytes
	BadTooLarge = "bad:toolarge" // over MaxFileBytes, over MaxDecodedBytes decompressed, or of too many objects
	BadGzip     = "bad:gzip"     // not gzip, cut short, or its CRC is wrong
	BadParse    = "bad:parse"    // not the JSON that it should be
	BadDepth    = "bad:depth"    // nested deeper than MaxDepth
	BadSchema   = "bad:schema"   // written by a newer version, or without a schema number
	BadChecksum = "bad:checksum" // the content does not match its checksum
	BadTrailing = "bad:trailing" // bytes after the end, a second gzip member among them
	BadHost     = "bad:host"     // the payload's host is not a host name
	BadForeign  = "bad:foreign"  // the payload is of another host than its directory
	BadTime     = "bad:time"     // without a usable time of collection
	BadTooMany  = "bad:toomany"  // more items than the limit; the rest is left out
	BadRange    = "bad:range"    // an impossible reading; shown as unknown
	BadRepeated = "bad:repeated" // the same GPU twice; the first counts
)

// unknownCode is for a problem whose code no collector of this version has.
const unknownCode = "host:unknown-code"

// NewProblem says in words what is wrong. Words of others in them are made safe to print.
func NewProblem(code, format string, args ...any) Problem {
	return Problem{Code: code, Message: Text(fmt.Sprintf(format, args...), MaxTextBytes)}
}

// Says quotes the words of a node, or of a program that is not ours, so that nobody takes
// them for ours.
func Says(who, words string) string { return who + " says: " + quote(words) }

// Quote limits the problems of a bundle that came from a node to what a node may say: that
// something of its own is not well, in its own words.
func (b *Bundle) Quote() {
	for i, p := range b.Snapshot.Errors {
		said := Problem{Code: p.Code, Message: Says(b.Host, p.Message), Host: b.Host}
		if !collected(p.Code) {
			said.Code, said.Message = unknownCode, Says(b.Host, p.Code+": "+p.Message)
		}
		if p.GPU != nil && *p.GPU >= 0 && *p.GPU <= maxIndex {
			said.GPU = p.GPU
		}
		b.Snapshot.Errors[i] = said
	}
}

// collected reports whether a collector has problems with this code.
func collected(code string) bool {
	return slices.Contains([]string{
		"gpu:ecc", "gpu:error", "gpu:fabric", "gpu:fan", "gpu:hung", "gpu:lost", "gpu:unread", "gpu:xid",
		"host:limit", "host:partial", "host:timeout", "loop:slow", BadRange, BadRepeated, BadTooMany,
		"ps:failed", "ps:hidden", "ps:limit", "ps:missing", "ps:namespace", "ps:parse", "ps:timeout",
		"amd:failed", "amd:parse", "amd:permission", "amd:timeout", "amd:too-old",
		"smi:blocked", "smi:driver-mismatch", "smi:driver-not-loaded", "smi:empty", "smi:failed", "smi:function-missing",
		"smi:inforom", "smi:interrupt", "smi:killed", "smi:limit", "smi:malformed", "smi:mig-list", "smi:missing",
		"smi:no-devices", "smi:no-gpus", "smi:no-library", "smi:nvml", "smi:nvml-unknown", "smi:parse", "smi:permission",
		"smi:power-cable", "smi:process-name", CodeProcesses, "smi:range", "smi:timeout", "smi:truncated",
		"smi:unknown-token", "smi:unsupported", "smi:usage", "smi:warning",
	}, code)
}

// AboutGPUs reports whether the problem is with GPUs, or with what a vendor says of them.
func (p Problem) AboutGPUs() bool {
	area, _, _ := strings.Cut(p.Code, ":")
	return area == "gpu" || area == "smi" || area == "amd"
}

// Severe reports whether something that the site should show is missing or old because of the problem.
func (p *Problem) Severe() bool {
	area, what, _ := strings.Cut(p.Code, ":")
	return area == "bad" || area == "discovery" || area == "pull" && what != "pushed" || what == "unreadable" ||
		p.Code == "booking:emptied" || p.Code == "gpu:hung"
}

// A DecodeError says why a file was refused.
type DecodeError struct {
	Code string // one of the Bad constants
	Err  error
}

// Error returns the code and the reason.
func (e *DecodeError) Error() string { return e.Code + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *DecodeError) Unwrap() error { return e.Err }

// CodeOf returns the code of the [DecodeError] in err's chain, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*DecodeError](err); ok {
		return e.Code
	}
	return ""
}

func refuse(code, format string, args ...any) error {
	return &DecodeError{Code: code, Err: fmt.Errorf(format, args...)}
}
