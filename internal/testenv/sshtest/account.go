package sshtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/testenv/need"
)

// ShippedConfig is what deploy/sshd brings, with the group and the keys of
// [Accounts] for those of a real web host. dir is the repository's root.
func (a Door) ShippedConfig(t testing.TB, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "deploy/sshd/gpuboard.conf"))
	must(t, err)
	return strings.NewReplacer("Match Group gpudrop", "Match Group "+a.Group, "/etc/ssh/gpudrop/",
		a.Root+"/keys/").Replace(string(raw))
}

// Account is one node's: its name, its drop on the server, and its private key.
type Account struct{ Name, Drop, Key string }

// A Door is a drop tree with accounts, made as the shipped configuration tells.
type Door struct {
	Group, Root string
	Data        string // the data directory, in which the drops are
	Nodes       []Account
}

// Accounts makes a drop tree and node accounts, and removes them when the test
// ends. It needs root.
func Accounts(t testing.TB, hosts ...string) Door {
	t.Helper()
	need.Root(t)
	d := Door{Group: fmt.Sprintf("gpbt-%d", os.Getpid())}
	// Not in the test's own directory: every directory above a chroot must be
	// writable by root alone, and /tmp is not.
	root, err := os.MkdirTemp("/srv", "gpbt-")
	if err != nil {
		need.Skip(t, err.Error())
	}
	d.Root = root
	t.Cleanup(func() { os.RemoveAll(root) })
	must(t, os.Chmod(root, 0o755))
	administer(t, "groupadd", d.Group)
	t.Cleanup(func() { administer(t, "groupdel", d.Group) })
	d.Data = filepath.Join(root, "data")
	must(t, os.MkdirAll(filepath.Join(root, "keys"), 0o755))
	for n, host := range hosts {
		account := fmt.Sprintf("%s-n%d", d.Group, n+1)
		drop := filepath.Join(d.Data, "drop", host)
		must(t, os.MkdirAll(filepath.Join(drop, "in"), 0o755))
		administer(t, "useradd", "-M", "-d", drop, "-s", "/usr/sbin/nologin", "-p", "*", "-G", d.Group, account)
		t.Cleanup(func() { administer(t, "userdel", account) })
		administer(t, "chown", account, filepath.Join(drop, "in"))
		administer(t, "chmod", "2770", filepath.Join(drop, "in"))
		key := filepath.Join(t.TempDir(), "id")
		public := WriteKey(t, key, "ed25519", "")
		authorized := filepath.Join(root, "keys", account)
		must(t, os.WriteFile(authorized, ssh.MarshalAuthorizedKey(public), 0o644))
		must(t, os.Chmod(authorized, 0o644))
		d.Nodes = append(d.Nodes, Account{account, filepath.Join(drop, "in"), key})
	}
	return d
}

// administer runs one of the programs that keep accounts. Other tests may be at
// work on the same files, which these programs lock without waiting.
func administer(t testing.TB, name string, args ...string) {
	t.Helper()
	program := need.Program(t, name)
	for tries := 0; ; tries++ {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err == nil {
			return
		}
		if tries == 50 || !strings.Contains(string(out), "lock") {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		time.Sleep(100 * time.Millisecond) // polling for another process's lock
	}
}
