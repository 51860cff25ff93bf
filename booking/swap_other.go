//go:build !linux

package booking

import "errors"

func swap(a, b string) error { return errors.ErrUnsupported }
