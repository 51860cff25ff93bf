package nvidiasmi

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// valueKind says what the text of a leaf is.
type valueKind uint8

const (
	number  valueKind = iota
	absent            // one of the driver's words for "no value"
	outside           // a number that is impossible
	unknown           // none of these
)

// isAbsent reports whether a text means "no value": words of nvidia-smi itself, and
// error strings of NVML that it prints.
func isAbsent(s string) bool {
	switch strings.ToLower(trimBrackets(s)) {
	case "", "-", "n/a", "na", "none", "null", "no data", "err!", "error", "unknown",
		"not supported", "unsupported", "not available", "not found", "function not found", "not active",
		"unknown error", "gpu is lost", "gpu requires reset", "insufficient permissions",
		"requested functionality has been deprecated", "deprecated", "notsupported",
		"uninitialized", "invalid argument", "insufficient size", "insufficient external power",
		"driver not loaded", "driver is not loaded", "timeout", "interrupt request", "nvml shared library not found",
		"corrupted inforom", "operating system call failed", "in use by another client", "insufficient memory",
		"insufficient resources", "vgpu ecc operation is not supported", "not ready", "system is not in ready state",
		"invalid state", "reset required", "gpu access blocked by the operating system", "redacted":
		return true
	}
	return false
}

// trimBrackets removes brackets: some versions write [N/A], some N/A.
func trimBrackets(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return strings.TrimSpace(s[1 : len(s)-1])
	}
	return s
}

// parseNumber reads "81920 MiB", "67.03 W", "-8 C", "16x" or "0". The unit follows the
// digits. A comma is a decimal comma, as in some locales. Three digits after a comma, a
// point or a blank could be thousands, so such a number is unknown: nvidia-smi writes
// two decimals at most.
func parseNumber(s string) (float64, string, valueKind) {
	if isAbsent(s) {
		return 0, "", absent
	}
	s = trimBrackets(s)
	digits, unit, _ := strings.Cut(s, " ")
	if digits == s {
		end := strings.LastIndexAny(s, "0123456789.")
		digits, unit = s[:end+1], s[end+1:]
		if end < 0 {
			digits, unit = s, ""
		}
	}
	if strings.Count(digits, ",") == 1 && !strings.Contains(digits, ".") {
		digits = strings.Replace(digits, ",", ".", 1)
	}
	v, err := strconv.ParseFloat(digits, 64)
	_, decimals, _ := strings.Cut(digits, ".")
	if len(decimals) == 3 || unit != "" && unit[0] >= '0' && unit[0] <= '9' {
		return 0, "", unknown
	}
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (math.IsNaN(v) || math.IsInf(v, 0)):
		return 0, "", outside
	case err != nil || strings.ContainsAny(digits, "xX_"): // no hexadecimal
		return 0, "", unknown
	}
	return v, strings.TrimSpace(unit), number
}

// mebibytes converts an amount of memory to MiB. Old drivers write MB and mean MiB.
func mebibytes(v float64, unit string) (float64, bool) {
	switch strings.ToLower(unit) {
	case "mib", "mb", "":
		return v, true
	case "b", "bytes":
		return math.Floor(v / (1 << 20)), true
	case "kib", "kb":
		return math.Floor(v / (1 << 10)), true
	case "gib", "gb":
		return v * (1 << 10), true
	case "tib", "tb":
		return v * (1 << 20), true
	}
	return 0, false
}
