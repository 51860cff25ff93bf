package render

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

var plainUser = snapshot.Pattern(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// UserPath returns the name of a person's directory below users/, and of the
// person's calendar there (plus ".ics"). Plain login names stand for
// themselves. Anything else (capitals, which some file systems fold; spaces;
// slashes; names that end like a file) becomes a readable rest, a tilde, and a
// hash of the whole name, so that two people never share a path and nobody can
// choose somebody else's.
func UserPath(name string) string {
	if plainUser().MatchString(name) && !fileLike(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return Slug(name, 32) + "~" + hex.EncodeToString(sum[:6])
}

// Slug is a name as a part of a path, at most so many characters long: letters and
// digits in lower case, with a single hyphen for what stands between them.
func Slug(name string, most int) string {
	var slug strings.Builder
	for _, r := range strings.ToLower(name) {
		if slug.Len() == most {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			slug.WriteRune(r)
		} else if s := slug.String(); s != "" && !strings.HasSuffix(s, "-") {
			slug.WriteByte('-')
		}
	}
	return strings.TrimSuffix(slug.String(), "-")
}

func fileLike(name string) bool {
	return slices.ContainsFunc([]string{".gz", ".html", ".ics", ".json", ".txt", "."},
		func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// MaxListed is how many bookings of one host are listed.
const MaxListed = 512

// maxBookers is how many of those who have booked a host have a page because of it, and
// allBookers how many people have a page because of bookings alone.
const (
	maxBookers = 256
	allBookers = 1024
)

// People are those who have a page and a calendar, with their paths below
// users/: everybody among the board's users, and in the first bookings of each host.
func People(b *board.Board) map[string]string {
	people := map[string]string{}
	for i := range b.Users {
		if name := b.Users[i].Name; name != "" {
			people[name] = UserPath(name)
		}
	}
	bookers, all := map[string]int{}, 0 // by host, and together
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if all == allBookers {
			break
		}
		if bk.Name != "" && bk.ByPerson() && people[bk.Name] == "" && bookers[bk.Host] < maxBookers {
			people[bk.Name] = UserPath(bk.Name)
			bookers[bk.Host]++
			all++
		}
	}
	return people
}
