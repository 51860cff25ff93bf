package snapshot

import (
	"errors"
	"fmt"
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
