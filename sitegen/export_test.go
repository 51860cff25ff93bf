package sitegen

import "time"

// LookAgain lets the next generation look at every file of the sites.
func LookAgain(g *Generator) {
	for _, v := range g.views {
		v.checked = time.Time{}
	}
}
