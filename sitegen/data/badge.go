package data

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// badgeFiles are small pictures for a wiki or a README: how many GPUs are free,
// in all and of each model. They have no style sheet, script or font of their
// own, so they work as an image anywhere.
func badgeFiles(in render.Input) []render.File {
	b := in.Board
	gpus, mig := b.Totals.GPUs, b.Totals.Slices
	value := of(gpus.Free(), gpus.All)
	if mig.All > 0 {
		value += " + " + of(mig.Free(), mig.All) + " MIG slices"
	}
	files := []render.File{render.NewFile("badges/free.svg", badge("free GPUs", gpus.Free()+mig.Free(), value))}
	taken := map[string]bool{"": true}
	for _, m := range byModel(b) {
		slug := render.Slug(m.Name, 48)
		if taken[slug] {
			continue
		}
		taken[slug] = true
		svg := badge("free "+m.Name, m.Free, of(m.Free, m.Total))
		files = append(files, render.NewFile("badges/free-"+slug+".svg", svg))
	}
	return files
}

func of(free, total int) string { return strconv.Itoa(free) + " of " + strconv.Itoa(total) }

// byModel adds up the GPUs of each short name, whatever their memory, and the slices of each; by name.
func byModel(b *board.Board) []board.Model {
	sums := board.AddModels(nil, b.Models, func(x, y board.Model) bool { return x.Name == y.Name && x.MIG == y.MIG })
	slices.SortFunc(sums, func(x, y board.Model) int { return strings.Compare(x.Name, y.Name) })
	return sums
}

func badge(label string, free int, value string) []byte {
	label = snapshot.Text(label, 64)
	fill := "#2c7a4b"
	if free == 0 {
		fill = "#8a5a00"
	}
	// Fonts differ; textLength makes the words fit the boxes in all of them.
	left, right := 7*render.TextWidth(label), 7*render.TextWidth(value)
	label = html.EscapeString(label)
	return fmt.Appendf(nil,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s">`+
			`<title>%s: %s</title><rect width="%d" height="20" rx="3" fill="#4a4f57"/>`+
			`<path d="M%d 0h%da3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-%dz" fill="%s"/>`+
			`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">`+
			`<text x="8" y="14" textLength="%d">%s</text><text x="%d" y="14" textLength="%d">%s</text></g></svg>`+"\n",
		left+right+32, label, value,
		label, value, left+right+32,
		left+16, right+13, right+13, fill,
		left, label, left+24, right, value)
}
