// Command probe is the least that a program does which tells a server of this
// node's GPUs: it runs nvidia-smi and ps, reads what they write, and pushes one
// compressed file over SFTP, written, synced and renamed. It has no
// configuration, keeps nothing, locks nothing, tries nothing twice and knows of
// no fault. The bench runs it beside gpuboard; no release has it.
//
//	probe -smi nvidia-smi -to 127.0.0.1:22 -user x -key id_ed25519 -known-hosts known_hosts
//
// With -every it goes on over the same connection.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func main() {
	smi := flag.String("smi", "nvidia-smi", "the nvidia-smi to run")
	to := flag.String("to", "", "host:port of the server")
	user := flag.String("user", "", "the account there")
	key := flag.String("key", "", "the private key")
	known := flag.String("known-hosts", "", "the keys of known servers")
	every := flag.Duration("every", 0, "go on this often (default: once)")
	flag.Parse()
	if err := run(*smi, *to, *user, *key, *known, *every); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(smi, to, user, key, known string, every time.Duration) error {
	var server *sftp.Client
	w := gzip.NewWriter(nil)
	for {
		bundle, err := collect(smi, w)
		if err != nil {
			return err
		}
		if server == nil {
			if server, err = dial(to, user, key, known); err != nil {
				return err
			}
			defer server.Close()
		}
		if err := push(server, bundle); err != nil {
			return err
		}
		if every == 0 {
			return nil
		}
		time.Sleep(every)
	}
}

// wanted are the values of a GPU and its processes that are sent.
const wanted = " uuid product_name total used gpu_util gpu_temp power_draw instant_power_draw pid used_memory "

// collect returns, compressed, the values that matter of what both programs say.
func collect(smi string, w *gzip.Writer) ([]byte, error) {
	xml, err := exec.Command(smi, "-x", "-q").Output()
	if err != nil {
		return nil, fmt.Errorf("running nvidia-smi: %w", err)
	}
	var text, pids bytes.Buffer
	for rest, more := xml, true; more; {
		if _, rest, more = bytes.Cut(rest, []byte("<")); !more {
			break
		}
		name, value, _ := bytes.Cut(rest[:max(0, bytes.IndexByte(rest, '<'))], []byte(">"))
		if len(name) == 0 || !strings.Contains(wanted, " "+string(name)+" ") {
			continue
		}
		fmt.Fprintf(&text, "%s %s\n", name, value)
		if string(name) == "pid" {
			fmt.Fprintf(&pids, "%s,", value)
		}
	}
	if pids.Len() > 0 {
		processes, err := exec.Command("ps", "-q", string(bytes.TrimRight(pids.Bytes(), ",")), "-o",
			"pid=,user=,etimes=,args=").Output()
		if err != nil {
			return nil, fmt.Errorf("running ps: %w", err)
		}
		text.Write(processes)
	}
	var packed bytes.Buffer
	w.Reset(&packed)
	if _, err := w.Write(text.Bytes()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// dial logs in at a server whose key is known.
func dial(to, user, key, known string) (*sftp.Client, error) {
	pem, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	check, err := knownhosts.New(known)
	if err != nil {
		return nil, err
	}
	conn, err := ssh.Dial("tcp", to, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: check,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519}, Timeout: 10 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return sftp.NewClient(conn)
}

// push replaces one file on the server, so that it is there before, during and
// after a power failure.
func push(server *sftp.Client, bundle []byte) error {
	f, err := server.OpenFile(".probe.new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err := f.Write(bundle); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return server.PosixRename(".probe.new", "probe.gz")
}
