package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// careManual is docs/care.md. What it types backs up a board, restores it on an empty machine, and renames and
// removes a node.
func careManual() manual {
	at := time.Now().UTC().Add(time.Minute).Truncate(time.Second).Format(time.RFC3339)
	restored := false
	return manual{
		setup: func(s *sandbox) {
			s.board()
			s.write("srv/gpuboard/state/keys/gpu01.pub", "ssh-ed25519 AAAA gpu01\n")
			s.env = append(s.env, "GPUBOARD_TO=file://"+s.path("srv/gpuboard/data"))
		},
		before: func(s *sandbox, command string) {
			switch {
			case strings.HasPrefix(command, "flock "):
				s.typed("gpuboard generate --now " + at)
				s.must(os.CopyFS(s.path("backed-up"), os.DirFS(s.path("srv/gpuboard/site"))))
			case strings.HasPrefix(command, "tar -x"):
				s.must(os.RemoveAll(s.path("srv/gpuboard")))
				s.must(os.RemoveAll(s.path("etc/gpuboard")))
				restored = true
			case restored:
				restored = false
				s.typed("gpuboard generate --now " + at)
				s.sameBoard("backed-up", "srv/gpuboard/site")
			case strings.HasPrefix(command, "rm ") && strings.Contains(command, "drop/gpu11"):
				s.pushed("srv/gpuboard/data/drop/gpu11")
				s.typed("gpuboard generate")
				s.shows("gpu11")
			}
		},
		after: func(s *sandbox) {
			s.typed("gpuboard generate --now " + time.Now().UTC().Add(25*time.Hour).Format(time.RFC3339))
			if names := hostNames(s.boardIn("srv/gpuboard/site")); !slices.Equal(names, []string{"gpu02"}) {
				s.t.Errorf("a day after gpu11 was removed, the board has %q", names)
			}
		},
	}
}

// boardIn reads the board of a site.
func (s *sandbox) boardIn(site string) boardJSON {
	s.t.Helper()
	var b boardJSON
	s.must(json.Unmarshal(s.logged(s.path(site+"/api/v1/board.json")), &b))
	return b
}

// sameBoard wants the pages and data of two sites to be the same, byte for byte.
func (s *sandbox) sameBoard(one, other string) {
	s.t.Helper()
	var files []string
	for _, pattern := range []string{"*.html", "*.txt", "*.json", "*.ics", "api/v1/*.json", "api/v1/hosts/*.json",
		"api/v1/history/*", "hosts/*/index.html", "users/*/index.html", "bookings/index.html", "history/index.html"} {
		found, err := filepath.Glob(filepath.Join(s.path(one), pattern))
		s.must(err)
		files = append(files, found...)
	}
	if len(files) < 20 {
		s.t.Fatalf("the site that was backed up has the files %q", files)
	}
	for _, file := range files {
		name, err := filepath.Rel(s.path(one), file)
		s.must(err)
		if string(s.logged(file)) != string(s.logged(filepath.Join(s.path(other), name))) {
			s.t.Errorf("%s is not what it was before the restore", name)
		}
	}
}
