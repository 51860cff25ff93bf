package cli

import (
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"

	"gpuboard/internal/shell"
)

// refuseRoot returns an error where root would make files in a directory that belongs
// to the account which runs the program: that account could not change them later.
func (a *app) refuseRoot(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return nil
	}
	owner, err := user.LookupId(fmt.Sprint(stat.Uid))
	if err != nil {
		return nil // as in a container, where nobody has that name
	}
	var typed []string
	for _, arg := range a.args {
		typed = append(typed, shell.Quote(arg))
	}
	return usagef("runuser -u "+owner.Username+" -- gpuboard "+strings.Join(typed, " "), "%s belongs to %s, who could not change what root makes there", dir, owner.Username)
}
