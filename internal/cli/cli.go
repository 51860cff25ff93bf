// Package cli is the command line: one file per command, where flags become
// options, the rooms are introduced to each other, and results become exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// The exit codes, the same for every command.
const (
	exitOK       = failure.ExitOK
	exitError    = failure.ExitError
	exitUsage    = failure.ExitUsage
	exitDegraded = failure.ExitDegraded
	exitNoMatch  = failure.ExitNoMatch
	exitTempFail = failure.ExitTryAgain
)

// fail makes an error with an exit code; hint may be "".
func fail(code int, err error, hint string) error {
	return &failure.Error{Exit: code, Err: err, Hint: hint}
}

func usagef(hint, format string, args ...any) error { return failure.Usage(hint, format, args...) }

func because(code string, err error) error { return failure.Because(code, err) }

func printable(s string) string { return failure.Printable(s) }

// silent ends a command with a code after it has said everything itself.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// app is what every command has at hand. Nothing below reads a clock, a stream
// or the environment of its own accord.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	getenv         func(string) string
	args           []string
}

// Main runs the program and returns its exit code. args are without the
// program's name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, as if nobody had asked for the first.
	go func() { <-ctx.Done(); stop() }()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now, getenv: os.Getenv, args: args}
	return a.run(ctx)
}

func (a *app) run(ctx context.Context) int {
	root := a.root()
	root.SetArgs(a.args)
	err := root.ExecuteContext(ctx)
	return a.report(err)
}

// report says what went wrong and picks the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	if quiet, ok := errors.AsType[silent](err); ok {
		return int(quiet)
	}
	f := failure.Explain(err)
	if f.Exit == exitError && f.Code == "" && isUsage(err) {
		f = &failure.Error{Exit: exitUsage, Err: err, Hint: "gpuboard --help lists the commands, gpuboard COMMAND --help its flags"}
	}
	fmt.Fprintf(a.stderr, "gpuboard: error: %s\n", failure.Line(f.Error(), failure.CodeOf(err)))
	if f.Hint != "" {
		fmt.Fprintf(a.stderr, "gpuboard: hint: %s\n", printable(f.Hint))
	}
	return f.Exit
}

// isUsage recognises what cobra and pflag report without a type of its own.
func isUsage(err error) bool {
	for _, prefix := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "flag needs", "invalid argument", "required flag", "bad flag syntax"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// complain writes one line about something that is not well, without ending anything.
func (a *app) complain(p snapshot.Problem) { failure.WriteProblem(a.stderr, p) }

// The groups in which help lists the commands.
const (
	groupNode  = "node"
	groupWeb   = "web"
	groupUse   = "people"
	groupSetup = "setup"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "gpuboard",
		Short:         "a static page of who uses which GPU, and which is free",
		SilenceErrors: true, SilenceUsage: true,
		Version: version(),
	}
	root.SetVersionTemplate("gpuboard {{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddGroup(
		&cobra.Group{ID: groupNode, Title: "On a GPU node:"},
		&cobra.Group{ID: groupWeb, Title: "On the web host:"},
		&cobra.Group{ID: groupUse, Title: "For people:"},
		&cobra.Group{ID: groupSetup, Title: "Setting up:"},
	)
	root.SetHelpCommandGroupID(groupSetup)
	root.SetCompletionCommandGroupID(groupSetup)
	root.PersistentFlags().String("config", "", "the configuration `FILE` (GPUBOARD_CONFIG; default ./gpuboard.yml, then /etc/gpuboard/gpuboard.yml)")
	for _, make := range a.wanted() {
		root.AddCommand(make())
	}
	return root
}

// wanted are the commands that this run can need: the one that it names, or
// all. A node starts the program for every snapshot, and to make all commands
// with all their flags would be a third of what that costs.
func (a *app) wanted() []func() *cobra.Command {
	all := a.commands()
	if len(a.args) > 0 {
		for _, c := range all {
			if c.name == a.args[0] {
				return []func() *cobra.Command{c.make}
			}
		}
	}
	var makes []func() *cobra.Command
	for _, c := range all {
		makes = append(makes, c.make)
	}
	return makes
}

// A verb is a command by its name.
type verb struct {
	name string
	make func() *cobra.Command
}

// commands is the explicit list of everything the program can do.
func (a *app) commands() []verb {
	return []verb{
		{"collect", a.collectCommand}, {"publish", a.publishCommand}, {"run", a.runCommand}, {"check", a.checkCommand},
		{"register", a.registerCommand}, {"deregister", a.deregisterCommand}, {"notify", a.notifyCommand},
		{"generate", a.generateCommand}, {"serve", a.serveCommand}, {"receive", a.receiveCommand},
		{"list", a.listCommand}, {"available", a.availableCommand}, {"status", a.statusCommand}, {"wait", a.waitCommand},
		{"book", a.bookCommand}, {"release", a.releaseCommand}, {"bookings", a.bookingsCommand},
		{"demo", a.demoCommand}, {"init", a.initCommand}, {"doctor", a.doctorCommand}, {"version", a.versionCommand},
	}
}

const exitStatus = `
EXIT STATUS
  0   done
  1   error
  2   usage or configuration
  3   done, and something is not well: see stderr
  5   nothing matches what was asked for
  75  try again: a lock is held by a live run, or a failure will pass
`
