package main

import (
	"math"
	"strings"
)

func log10(v float64) float64 { return math.Log10(max(v, 1e-9)) }

func clamp(v float64) float64 { return min(1, max(0, v)) }

// short is a label that fits beside a bar.
func short(s string) string {
	const most = 46
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
