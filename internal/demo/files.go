package demo

import (
	"bytes"
	"embed"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed files
var embedded embed.FS

// Files returns what the people of the lab have written, by its name in the data directory.
func (f *Fleet) Files(now time.Time) map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"comments.json", "aliases.csv", "notice.md", "hosts/atlas.md", "hosts/gaia.md"} {
		all[name], _ = embedded.ReadFile("files/" + name)
	}
	all["comments.json"] = f.withTimes(all["comments.json"], now)
	return all
}

// hours matches a time in comments.json: so many hours after the start.
var hours = regexp.MustCompile(`\{-?[0-9]+\}`)

// withTimes fills times and the UUID of a slice into comments.json. Its times move by whole days after
// the start, so that a later visitor sees the same picture.
func (f *Fleet) withTimes(comments []byte, now time.Time) []byte {
	day := f.start
	if now.After(day) {
		day = day.Add(now.Sub(day) / (24 * time.Hour) * (24 * time.Hour))
	}
	day = day.Truncate(time.Hour)

	comments = bytes.ReplaceAll(comments, []byte("{slice}"), []byte(f.machine("ceres").gpus[2].mig[1].uuid))
	return hours.ReplaceAllFunc(comments, func(match []byte) []byte {
		n, _ := strconv.Atoi(strings.Trim(string(match), "{}"))
		return day.Add(time.Duration(n)*time.Hour).AppendFormat(nil, "2006-01-02 15:04Z") // in UTC, as people type them
	})
}
