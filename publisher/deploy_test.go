package publisher_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const shippedConfig = "../deploy/sshd/gpuboard.conf"

func TestShippedConfigurationIsValid(t *testing.T) {
	sshd := need.Program(t, "sshd")
	conf, err := filepath.Abs(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sshtest.WriteKey(t, filepath.Join(dir, "host"), "ed25519", "")
	check := func(line string) (string, error) {
		main := writeFile(t, filepath.Join(dir, "sshd_config"),
			fmt.Sprintf("HostKey %s/host\nInclude %s\n%s\n", dir, conf, line))
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

func TestShippedConfigurationIsolatesNodes(t *testing.T) {
	accounts := sshtest.Accounts(t, "gpu01", "gpu02")
	nodes := accounts.Nodes
	s := sshtest.Start(t, sshtest.Options{Config: accounts.ShippedConfig(t, "..")})
	for _, n := range nodes {
		o := toServer(t, s, s.Port)
		o.Target.User, o.Identity = n.Name, []string{n.Key}
		p := open(t, o)
		src := newMemorySpool(publisher.LatestName, "hour-20261120T05-b1.jsonl.gz")
		publish(t, p, src)
		src.set(publisher.LatestName, []byte("of "+n.Name))
		publish(t, p, src)
		if got := content(t, n.Drop); got[publisher.LatestName] != "of "+n.Name || len(got) != 2 {
			t.Fatalf("%s: the drop holds %v", n.Name, got)
		}
		if info, err := os.Stat(filepath.Join(n.Drop, publisher.LatestName)); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, %v: the generator's group must be able to read, others not", info.Mode(), err)
		}
	}

	raw, err := os.ReadFile(nodes[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", s.Addr,
		&ssh.ClientConfig{User: nodes[0].Name, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
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
		"write a sibling's":       func() error { return create(nodes[1].Drop + "/x") },
		"write a sibling's, dots": func() error { return create("../../gpu02/in/x") },
		"write beside the drop":   func() error { return create("/x") },
		"rename to a sibling's": func() error {
			return c.PosixRename(publisher.LatestName, "../../gpu02/in/"+publisher.LatestName)
		},
		"read back":                 func() error { return openWith(publisher.LatestName, os.O_RDONLY) },
		"read the system's":         func() error { return openWith("/etc/passwd", os.O_RDONLY) },
		"list":                      func() error { _, err := c.ReadDir("/in"); return err },
		"look":                      func() error { _, err := c.Stat(publisher.LatestName); return err },
		"symbolic link":             func() error { return c.Symlink("/etc/passwd", "link") },
		"hard link":                 func() error { return c.Link(publisher.LatestName, "link") },
		"make a directory":          func() error { return c.Mkdir("sub") },
		"change the mode":           func() error { return c.Chmod(publisher.LatestName, 0o777) },
		"change the length":         func() error { return c.Truncate(publisher.LatestName, 1<<40) },
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
	shell, err := ssh.Dial("tcp", s.Addr,
		&ssh.ClientConfig{User: nodes[0].Name, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
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
	if diff := cmp.Diff([]string{"in"}, entriesOf(t, filepath.Dir(nodes[0].Drop))); diff != "" {
		t.Errorf("above the drop (-want +got):\n%s", diff)
	}
	for _, n := range nodes {
		if got := content(t, n.Drop); got[publisher.LatestName] != "of "+n.Name || len(got) != 2 {
			t.Errorf("%s: afterwards the drop holds %v", n.Name, got)
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
	accounts := sshtest.Accounts(t, "gpu01")
	nodes := accounts.Nodes
	if err := os.Chmod(filepath.Dir(nodes[0].Drop), 0o775); err != nil {
		t.Fatal(err)
	}
	s := sshtest.Start(t, sshtest.Options{Config: accounts.ShippedConfig(t, "..")})
	o := toServer(t, s, s.Port)
	o.Target.User, o.Identity = nodes[0].Name, []string{nodes[0].Key}
	e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeNoSFTP)
	if !strings.Contains(e.Hint(), "chroot") {
		t.Errorf("hint %q", e.Hint())
	}
}
