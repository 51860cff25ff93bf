package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/collector"
	"gpuboard/collector/hostinfo"
	"gpuboard/collector/nvidiasmi"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
)

// readBudget is longer than all programs of the command may take.
const readBudget = 30 * time.Second

// A Target is a node that is read over SSH.
type Target struct {
	Host string // its name on the board
	SSH  string // user@host:port, as ssh knows it
	Any  bool   // nobody has named it: it may push as well
}

// Options say how nodes are read.
type Options struct {
	Version              string
	Now                  func() time.Time
	Identity, KnownHosts []string
	// Budget bounds one reading, with the login, and all of them before a single generation; readBudget or onceBudget
	// if 0.
	Budget time.Duration
	// ResolveConfig is [sshclient.Options.ResolveConfig].
	ResolveConfig func(ctx context.Context, host string) ([]byte, error)
}

// A Node is read again and again, over one connection.
type Node struct {
	target    Target
	dir       string // for what was read
	now       func() time.Time
	budget    time.Duration
	ssh       sshclient.Options
	logins    chan struct{} // has room for those at the same time; nil for any number
	conn      *sshclient.Conn
	backoff   sshclient.Backoff
	collector *collector.Collector

	// Of the reading in progress:
	at    time.Time
	ran   int // 1 from when nvidia-smi has ended
	reply *answer
}

// New returns a node; it connects to nothing. What is read lies in dir, which it makes.
func New(t Target, dir string, o Options) (*Node, error) {
	n := &Node{target: t, dir: dir, now: o.Now, budget: cmp.Or(o.Budget, readBudget)}
	user, host, port, err := sshclient.Parse(t.SSH)
	if err != nil {
		return nil, sshclient.Permanent("pull:refused", "write user@host, or host as ssh knows it", "ssh: %w", err)
	}
	n.ssh = sshclient.Options{
		User: user, Host: host, Port: port, Identity: o.Identity, KnownHosts: o.KnownHosts,
		ResolveConfig: o.ResolveConfig, Program: "ssh", WebHint: "name the port of sshd",
		KeyHint: "bring a key of this account into ~/.ssh/authorized_keys there " +
			"(gpuboard pull --authorize KEY.pub prints the line)",
	}
	n.collector = collector.New(collector.Options{
		Host: t.Host, Version: o.Version, Now: n.clock, Pulled: true, AMDSMI: "amd-smi",
		Kmsg: os.DevNull, Containers: filepath.Join(dir, "none"),
		Roots: hostinfo.Roots{
			Proc: filepath.Join(dir, "proc"), Etc: filepath.Join(dir, "etc"),
			Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"),
			Usage:      func(mount string) (total, used int64, err error) { return n.reply.usage(mount) },
			Interfaces: func() ([]snapshot.Interface, error) { return nil, nil },
		},
		Elsewhere: &collector.Elsewhere{
			Has: n.has, Ran: n.answerOf, Up: func() time.Duration { return n.reply.up[n.ran] },
		},
	})
	return n, nil
}

// clock is the time at which the node did what the collector asks for, by the clock of this machine.
func (n *Node) clock() time.Time { return n.at.Add(n.reply.up[n.ran] - n.reply.up[0]) }

func (n *Node) answerOf(program string, args []string) *collector.Answer {
	said := n.reply.programs
	switch {
	case program == "ps":
		return said["ps"]
	case program == "rocm-smi":
		return said["rocm"]
	case program == "amd-smi":
		if static := said["static"]; said[args[0]] == nil && static != nil && static.Exit != 0 {
			return static // after which it was not asked
		}
		return cmp.Or(said[args[0]], &collector.Answer{TimedOut: true})
	case program != "nvidia-smi":
		return nil
	case strings.Join(args, " ") == strings.Join(nvidiasmi.ListArgs(), " "):
		return said["list"]
	}
	n.ran = 1
	return said["smi"]
}

// has reports whether a program is installed. An answer about AMD's GPUs that is missing must not pass for a node
// without a tool, on which the driver's files are enough.
func (n *Node) has(program string) bool {
	rocm := n.reply.programs["rocm"] != nil
	return program == "rocm-smi" && rocm || program == "amd-smi" && !rocm && n.reply.programs["none"] == nil ||
		program == "nvidia-smi" || program == "ps"
}

// Once reads a node and keeps nothing of it.
func Once(ctx context.Context, t Target, o Options) (*snapshot.Snapshot, error) {
	dir, err := os.MkdirTemp("", "gpuboard-pull-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	n, err := New(t, filepath.Join(dir, "read"), o)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return n.Collect(ctx)
}

// Collect reads the node once. An error other than one of this machine's disk is a [*sshclient.Error].
func (n *Node) Collect(ctx context.Context) (*snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, n.budget)
	defer cancel()
	if err := n.read(ctx); err != nil {
		n.Close()
		return nil, err
	}
	if err := n.reply.write(n.dir); err != nil {
		return nil, fmt.Errorf("keeping what was read of %s: %w", n.target.Host, err)
	}
	defer os.RemoveAll(n.dir)
	snap, err := n.collector.Collect(ctx)
	if err == nil {
		snap.Errors = append(snap.Errors, snap.Validate()...)
	}
	return snap, err
}

// read runs the command. A kept connection that broke is made anew once.
func (n *Node) read(ctx context.Context) error {
	out, err := n.output(ctx)
	var known *sshclient.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, sshclient.ErrTooMuch):
	case err != nil:
		return n.ssh.Explain(ctx, n.conn, "reading "+n.target.SSH, err)
	default:
		n.ran = 0
		n.reply, err = parse(out)
	}
	if err != nil {
		return sshclient.Permanent("pull:output", "look at it: gpuboard pull --print-command | ssh "+n.target.SSH+" sh",
			"reading %s: %w", n.target.SSH, err)
	}
	return nil
}

func (n *Node) output(ctx context.Context) ([]byte, error) {
	kept := n.conn != nil
	for {
		if n.conn == nil {
			if err := n.backoff.Check(n.now()); err != nil {
				return nil, err
			}
			err := n.dial(ctx)
			if n.backoff.Record(err, n.now()); err != nil {
				return nil, err
			}
		}
		end, _ := ctx.Deadline()
		n.conn.SetDeadline(end)
		n.at = n.now()
		out, err := n.conn.Output(ctx, Command(), maxOutput)
		if err == nil || !kept || ctx.Err() != nil || errors.Is(err, sshclient.ErrTooMuch) {
			return out, err
		}
		kept = false
		n.Close()
	}
}

func (n *Node) dial(ctx context.Context) (err error) {
	if n.logins != nil {
		select {
		case n.logins <- struct{}{}:
			defer func() { <-n.logins }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	n.conn, err = sshclient.Dial(ctx, n.ssh)
	return err
}

// Close ends the connection.
func (n *Node) Close() {
	if n.conn != nil {
		n.conn.Close()
		n.conn = nil
	}
}

// Problem returns what the board says of an error of [Node.Collect].
func Problem(host string, err error) snapshot.Problem {
	p := snapshot.Problem{Code: "pull:disk", Host: host}
	message := err.Error()
	if e, ok := errors.AsType[*sshclient.Error](err); ok {
		switch {
		case strings.HasPrefix(e.Code, "pull:"):
			p.Code = e.Code
		case strings.Contains(e.Code, "hostkey"), e.Code == sshclient.CodeKnownHosts:
			p.Code = "pull:hostkey"
		case strings.HasPrefix(e.Code, "ssh:") && e.Permanent:
			p.Code = "pull:refused"
		case strings.HasPrefix(e.Code, "ssh:"):
			p.Code = "pull:timeout"
		}
		if e.Advice != "" {
			message += "; " + e.Advice
		}
	}
	p.Message = snapshot.Text(message, snapshot.MaxTextBytes)
	return p
}
