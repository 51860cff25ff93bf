//go:build !linux

package booking

import "errors"

func exchange(a, b string) error { return errors.ErrUnsupported }
