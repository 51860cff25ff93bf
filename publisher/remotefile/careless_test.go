package remotefile

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
)

// ownServer is an SSH server in this process, for servers that are not OpenSSH.
func ownServer(t *testing.T, serve func(ssh.Channel)) *sshtest.Server {
	t.Helper()
	dir := t.TempDir()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, channels, requests, err := ssh.NewServerConn(conn, config)
			if err != nil {
				continue
			}
			go ssh.DiscardRequests(requests)
			go func() {
				for c := range channels {
					channel, requests, err := c.Accept()
					if err != nil {
						return
					}
					go func() {
						for r := range requests {
							_ = r.Reply(r.Type == "subsystem", nil)
						}
					}()
					go serve(channel)
				}
			}()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	key := filepath.Join(dir, "key")
	sshtest.WriteKey(t, key, "ed25519", "")
	known := filepath.Join(dir, "known_hosts")
	write(t, known, fmt.Sprintf("[127.0.0.1]:%d %s", port, ssh.MarshalAuthorizedKey(host.PublicKey())))
	return &sshtest.Server{User: "u", Host: "127.0.0.1", Port: port, Key: key, KnownHosts: known, Dir: dir}
}

func extensions(t *testing.T, names ...string) {
	t.Helper()
	if err := sftp.SetSFTPExtensions(names...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sftp.SetSFTPExtensions("hardlink@openssh.com", "posix-rename@openssh.com", "statvfs@openssh.com")
	})
}

func plainServer(channel ssh.Channel) {
	server, err := sftp.NewServer(channel)
	if err == nil {
		_ = server.Serve()
	}
	channel.Close()
}

// A server whose plain rename replaces what stands there would lose the save of
// an editor: it is refused before the file is touched. With links it is not.
func TestServerThatOverwritesIsRefused(t *testing.T) {
	for _, links := range []bool{false, true} {
		t.Run(fmt.Sprintf("links %v", links), func(t *testing.T) {
			offered := []string{"posix-rename@openssh.com"}
			if links {
				offered = append(offered, "hardlink@openssh.com")
			}
			extensions(t, offered...)
			s := ownServer(t, plainServer)
			dir := t.TempDir()
			file := filepath.Join(dir, "comments.json")
			write(t, file, "{}")
			err := book(context.Background(), open(t, s, file), "x", 0)
			if links {
				if got := comments(t, file); err != nil || !slices.Equal(got, []string{"x-0"}) {
					t.Errorf("bookings %v, %v", got, err)
				}
				return
			}
			if publisher.Code(err) != publisher.CodeOverwrites || !strings.Contains(err.Error(), "overwritten") {
				t.Errorf("got %v, want code %s", err, publisher.CodeOverwrites)
			}
			if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
				t.Errorf("the file holds %q, %v", data, err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"comments.json"}) {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// noLinks is a file system that has none.
type noLinks struct{ sftp.FileCmder }

func (n noLinks) Filecmd(r *sftp.Request) error {
	if r.Method == "Link" {
		return sftp.ErrSSHFxPermissionDenied
	}
	return n.FileCmder.Filecmd(r)
}

// A file system without hard links cannot refuse a name that is taken.
func TestFileSystemWithoutLinksIsRefused(t *testing.T) {
	handlers := sftp.InMemHandler()
	handlers.FileCmd = noLinks{handlers.FileCmd}
	extensions(t, "posix-rename@openssh.com", "hardlink@openssh.com")
	s := ownServer(t, func(channel ssh.Channel) {
		_ = sftp.NewRequestServer(channel, handlers).Serve()
		channel.Close()
	})
	f := open(t, s, "/comments.json")
	if err := book(context.Background(), f, "x", 0); publisher.Code(err) != publisher.CodeOverwrites || !strings.Contains(err.Error(), "hard links") {
		t.Errorf("got %v, want code %s", err, publisher.CodeOverwrites)
	}
}
