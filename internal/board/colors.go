package board

import (
	"cmp"
	"maps"
	"slices"
)

// ColorsOf returns [Board.Colors], given those of the board before. Whoever has a color keeps it. People who use
// something get those that are free, whoever used most in the last week first. When none is free they get those of
// people whom the board does not know any more.
func ColorsOf(b *Board, before map[string]int) map[string]int {
	var owners [PersonColors]string // of each color
	colors := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if i := before[name] - 1; i >= 0 && i < PersonColors && owners[i] == "" {
			owners[i] = name
			colors[name] = before[name]
		}
	}

	known := b.known()
	gone := func(name string) bool { return name != "" && !known[name] }
	for _, u := range b.byUse() {
		if colors[u.Name] != 0 {
			continue
		}
		i := slices.Index(owners[:], "")
		if i < 0 {
			i = slices.IndexFunc(owners[:], gone)
		}
		if i < 0 {
			break
		}
		delete(colors, owners[i])
		owners[i] = u.Name
		colors[u.Name] = i + 1
	}
	return colors
}

// byUse are those who use something or did in the last week, whoever used most first.
func (b *Board) byUse() []User {
	list := slices.DeleteFunc(slices.Clone(b.Users), func(u User) bool {
		return u.Used == 0 && u.Slices.Used == 0 && orZero(u.Mean1w) == 0
	})
	slices.SortFunc(list, func(x, y User) int {
		return cmp.Or(cmp.Compare(orZero(y.Mean1w), orZero(x.Mean1w)), NaturalCompare(x.Name, y.Name))
	})
	return list
}

// known are the people whom the board names: who uses or has booked something, or used it lately.
func (b *Board) known() map[string]bool {
	known := map[string]bool{}
	for i := range b.Users {
		known[b.Users[i].Name] = true
	}
	for i := range b.Bookings {
		known[b.Bookings[i].Name] = true
	}
	for i := range b.Hosts {
		for g := range b.Hosts[i].Rows() {
			for _, name := range g.Holders {
				known[name] = true
			}
		}
	}
	return known
}
