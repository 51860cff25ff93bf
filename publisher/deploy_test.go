package publisher

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/sshtest"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const shippedConfig = "../deploy/sshd/gpuboard.conf"

func TestShippedConfigurationIsValid(t *testing.T) {
	sshd := sshtest.Require(t, "sshd")
	conf, err := filepath.Abs(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sshtest.WriteKey(t, filepath.Join(dir, "host"), "ed25519", "")
	check := func(line string) (string, error) {
		main := writeFile(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf("HostKey %s/host\nInclude %s\n%s\n", dir, conf, line))
		out, err := exec.Command(sshd, "-t", "-f", main).CombinedOutput()
		return string(out), err
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := check("Port 22"); err != nil || out != "" {
		t.Errorf("sshd -t: %v\n%s", err, out)
	}
	if _, err := check("NoSuchOption yes"); err == nil {
		t.Error("sshd -t accepts anything")
	}
}

// node is an account made as the shipped configuration tells.
type node struct{ account, drop, key string }

// accounts makes a drop tree and node accounts, and removes them afterwards.
func accounts(t *testing.T, group string, hosts ...string) (root string, nodes []node) {
	t.Helper()
	sshtest.RequireRoot(t)
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(sshtest.Require(t, name), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	// Not in the test's own directory: every directory above a chroot must be
	// writable by root alone, and /tmp is not.
	root, err := os.MkdirTemp("/srv", "gpbt-")
	if err != nil {
		sshtest.Skip(t, err.Error())
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run("groupadd", group)
	t.Cleanup(func() { exec.Command("groupdel", group).Run() })
	for n, host := range hosts {
		account := fmt.Sprintf("gpbt-n%d", n+1)
		drop := filepath.Join(root, "drop", host)
		if err := os.MkdirAll(filepath.Join(drop, "in"), 0o755); err != nil {
			t.Fatal(err)
		}
		run("useradd", "-M", "-d", drop, "-s", "/usr/sbin/nologin", "-p", "*", "-G", group, account)
		t.Cleanup(func() { exec.Command("userdel", account).Run() })
		run("chown", account, filepath.Join(drop, "in"))
		run("chmod", "2750", filepath.Join(drop, "in"))
		key := filepath.Join(t.TempDir(), "id")
		public := sshtest.WriteKey(t, key, "ed25519", "")
		if err := os.MkdirAll(filepath.Join(root, "keys"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, "keys", account), string(ssh.MarshalAuthorizedKey(public)))
		if err := os.Chmod(filepath.Join(root, "keys", account), 0o644); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, node{account, filepath.Join(drop, "in"), key})
	}
	return root, nodes
}

func TestShippedConfigurationIsolatesNodes(t *testing.T) {
	raw, err := os.ReadFile(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	const group = "gpbt-drop"
	root, nodes := accounts(t, group, "gpu01", "gpu02")
	config := strings.NewReplacer("Match Group gpudrop", "Match Group "+group, "/etc/ssh/gpudrop/", root+"/keys/").Replace(string(raw))
	s := sshtest.Start(t, sshtest.Options{Config: config})
	for _, n := range nodes {
		o := toServer(t, s, s.Port)
		o.Target.User, o.Identity = n.account, []string{n.key}
		p := open(t, o)
		src := newShelf(LatestName, "hour-20261120T05-b1.jsonl.gz")
		publish(t, p, src)
		src.set(LatestName, []byte("of "+n.account))
		publish(t, p, src)
		if got := content(t, n.drop); got[LatestName] != "of "+n.account || len(got) != 2 {
			t.Fatalf("%s: the drop holds %v", n.account, got)
		}
		if info, err := os.Stat(filepath.Join(n.drop, LatestName)); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, %v: the generator's group must be able to read, others not", info.Mode(), err)
		}
	}

	raw, err = os.ReadFile(nodes[0].key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", s.Addr, &ssh.ClientConfig{User: nodes[0].account, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(s.Public["ed25519"])})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	openWith := func(name string, flags int) error {
		f, err := c.OpenFile(name, flags)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
		}
		return err
	}
	create := func(name string) error {
		_, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		return err
	}
	for what, try := range map[string]func() error{
		"write a sibling's":         func() error { return create(nodes[1].drop + "/x") },
		"write a sibling's, dots":   func() error { return create("../../gpu02/in/x") },
		"write beside the drop":     func() error { return create("/x") },
		"rename to a sibling's":     func() error { return c.PosixRename(LatestName, "../../gpu02/in/"+LatestName) },
		"read back":                 func() error { return openWith(LatestName, os.O_RDONLY) },
		"read the system's":         func() error { return openWith("/etc/passwd", os.O_RDONLY) },
		"list":                      func() error { _, err := c.ReadDir("/in"); return err },
		"look":                      func() error { _, err := c.Stat(LatestName); return err },
		"symbolic link":             func() error { return c.Symlink("/etc/passwd", "link") },
		"hard link":                 func() error { return c.Link(LatestName, "link") },
		"make a directory":          func() error { return c.Mkdir("sub") },
		"change the mode":           func() error { return c.Chmod(LatestName, 0o777) },
		"change the length":         func() error { return c.Truncate(LatestName, 1<<40) },
		"a second session":          func() error { _, err := client.NewSession(); return err },
		"forward a port":            func() error { _, err := client.Dial("tcp", s.Addr); return err },
		"listen through the server": func() error { _, err := client.Listen("tcp", "127.0.0.1:0"); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	c.Close()

	// A shell or a command: the forced SFTP server answers instead, if anything does.
	shell, err := ssh.Dial("tcp", s.Addr, &ssh.ClientConfig{User: nodes[0].account, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(s.Public["ed25519"])})
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	session, err := shell.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	session.Stdin = strings.NewReader("id\n")
	if out, err := session.Output("id"); err == nil || strings.Contains(string(out), "uid=") {
		t.Errorf("a command ran: %q, %v", out, err)
	}
	if diff := cmp.Diff([]string{"in"}, entriesOf(t, filepath.Dir(nodes[0].drop))); diff != "" {
		t.Errorf("above the drop (-want +got):\n%s", diff)
	}
	for _, n := range nodes {
		if got := content(t, n.drop); got[LatestName] != "of "+n.account || len(got) != 2 {
			t.Errorf("%s: afterwards the drop holds %v", n.account, got)
		}
	}
}

func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestDropDirectoryThatOthersMayWrite(t *testing.T) {
	raw, err := os.ReadFile(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	const group = "gpbt-drop"
	root, nodes := accounts(t, group, "gpu01")
	if err := os.Chmod(filepath.Dir(nodes[0].drop), 0o775); err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("Match Group gpudrop", "Match Group "+group, "/etc/ssh/gpudrop/", root+"/keys/").Replace(string(raw))
	s := sshtest.Start(t, sshtest.Options{Config: config})
	o := toServer(t, s, s.Port)
	o.Target.User, o.Identity = nodes[0].account, []string{nodes[0].key}
	o.Budget = testBudget
	if e := refused(t, open(t, o), newShelf(LatestName), CodeNoSFTP); !strings.Contains(e.Hint(), "chroot") {
		t.Errorf("hint %q", e.Hint())
	}
}
