// Package deploy is the files that fit gpuboard into a machine, as data: init
// fills them in for a site. They stand here as they are for a machine that
// keeps to /usr/bin, /etc/gpuboard and /srv/gpuboard.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed sample consul/*.json nginx/*.conf sshd/*.conf sshd/*.sh systemd/*.service systemd/*.timer
var embedded embed.FS

// Files returns what init makes use of, by folder.
func Files() fs.FS { return embedded }
