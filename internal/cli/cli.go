// Package cli is the command line: one file per command, where flags become
// options, the rooms are introduced to each other, and results become exit codes.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// silent ends a command with a code after it has said everything itself.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// app is what every command shares. Commands take the clock, streams and environment from here.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	getenv         func(string) string
	args           []string
	demonstration  *demonstration // that runs the command; nil for none
	helpAll        helpAll
}

// A Process is one run of the program, with what it has of its surroundings. Args are without the program's name.
type Process struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Now            func() time.Time
	Getenv         func(string) string
}

// Run runs the program and returns its exit code.
func (p Process) Run(ctx context.Context) int {
	a := &app{stdin: p.Stdin, stdout: p.Stdout, stderr: p.Stderr, now: p.Now, getenv: p.Getenv, args: p.Args}
	return a.run(ctx)
}

// Main runs the program and returns its exit code. args are without the
// program's name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, as if nobody had asked for the first.
	go func() { <-ctx.Done(); stop() }()
	return Process{args, stdin, stdout, stderr, time.Now, os.Getenv}.Run(ctx)
}

func (a *app) run(ctx context.Context) int {
	root := a.root()
	root.SetArgs(a.args)
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	err := root.ExecuteContext(ctx)
	if err != nil && !understood {
		err = misunderstood(root, a.args, err, a.now())
	}
	return a.report(err)
}

// misunderstood adds to an error of cobra's how the command is typed.
func misunderstood(root *cobra.Command, args []string, err error, now time.Time) error {
	c, _, findErr := root.Find(args)
	if findErr != nil || c == root {
		return failure.Usage("gpuboard --help lists the commands, gpuboard COMMAND --help its flags", "%w", err)
	}
	if flag, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kinds := map[string]string{"int": "a whole number", "bool": "true or false",
			"duration": "a duration like 30s or 5m"}
		if kind, ok := kinds[flag.GetFlag().Value.Type()]; ok {
			err = fmt.Errorf("--%s: %q is not %s", flag.GetFlag().Name, flag.GetValue(), kind)
		}
	}
	given := c.Flags().Args()
	if refused := c.ValidateArgs(given); refused != nil && refused.Error() == err.Error() && c.HasExample() {
		err = wrongWords(c, given)
		if meant := withoutFlag(c, given, now); meant != "" {
			return failure.Usage("did you mean "+meant, "%w", err)
		}
	}
	near := ""
	if flag, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if name := spelling.Nearest(flag.GetSpecifiedName(), known, 2); name != "" {
			near = ": did you mean --" + name + "?"
		}
	}
	return failure.Usage("type it as: "+c.UseLine()+"; see "+c.CommandPath()+" --help", "%w%s", err, near)
}

// withoutFlag is the command with the flag of which the words that are too many are the name, or the time; "" for none.
func withoutFlag(c *cobra.Command, given []string, now time.Time) string {
	needed := len(strings.Fields(c.Use)) - 1
	if len(given) <= needed {
		return ""
	}
	extra := strings.Join(given[needed:], " ")
	words := append(commandLine(c), given[:needed]...)
	if c.Flags().Lookup(extra) != nil {
		return shell.Join(append(words, "--"+extra)...)
	}
	if flag, said := booking.FlagFor(extra, now, time.Local); flag != "" && c.Flags().Lookup("for") != nil {
		return shell.Join(append(words, "--"+flag, said)...)
	}
	return ""
}

// wrongWords says in what the words of a command are too few or too many.
func wrongWords(c *cobra.Command, given []string) error {
	name, takes, some := strings.Cut(c.Use, " ")
	needed := len(strings.Fields(takes))
	switch {
	case !some:
		return fmt.Errorf("%s takes flags alone, and not %q", name, given[0])
	case len(given) < needed:
		return fmt.Errorf("%s needs %s", name, takes)
	}
	return fmt.Errorf("%s takes %s: %q is too much", name, takes, given[needed])
}

func (a *app) report(err error) int {
	if err == nil {
		return failure.ExitOK
	}
	if quiet, ok := errors.AsType[silent](err); ok {
		return int(quiet)
	}
	f := failure.Explain(err)
	fmt.Fprintf(a.stderr, "gpuboard: error: %s\n", failure.Line(f.Error(), failure.CodeOf(err)))
	if f.Hint != "" {
		fmt.Fprintf(a.stderr, "gpuboard: hint: %s\n", failure.Printable(f.Hint))
	}
	return f.Exit
}

func (a *app) complain(p snapshot.Problem) { failure.WriteProblem(a.stderr, p) }

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
	root.SetHelpFunc(a.help)
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "For people"},
		&cobra.Group{ID: groupNode, Title: "On a node"},
		&cobra.Group{ID: groupWeb, Title: "On the web host"},
		&cobra.Group{ID: groupSetup, Title: "Setting up"},
	)
	root.SetHelpCommandGroupID(groupSetup)
	root.SetCompletionCommandGroupID(groupSetup)
	root.PersistentFlags().String("config", "",
		"the configuration `FILE` (GPUBOARD_CONFIG; default ./gpuboard.yml, then /etc/gpuboard/gpuboard.yml)")
	root.PersistentFlags().Var(&a.helpAll, "help-all", "all of the help: its text, exit statuses and settings")
	root.PersistentFlags().Lookup("help-all").NoOptDefVal = "true"
	root.AddCommand(a.commands()...)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, names []string) error { // cobra ends with 0 for an unknown command
			_, _, err := root.Find(names)
			return err
		}
	}
	return root
}

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.pullCommand(), a.collectCommand(), a.containersCommand(), a.publishCommand(), a.runCommand(),
		a.checkCommand(),
		a.registerCommand(), a.deregisterCommand(), a.notifyCommand(),
		a.generateCommand(), a.acceptCommand(), a.serveCommand(), a.receiveCommand(),
		a.listCommand(), a.availableCommand(), a.statusCommand(), a.waitCommand(), a.bookCommand(), a.extendCommand(),
		a.releaseCommand(), a.bookingsCommand(), a.mineCommand(), a.usageCommand(),
		a.demoCommand(), a.initCommand(), a.doctorCommand(), a.mcpCommand(), a.versionCommand(),
	}
}

const exitStatus = `
EXIT STATUS
  0   done
  1   error
  2   usage or configuration
  3   done, but there is a problem: see stderr
  5   nothing matches what was asked for
  75  try again: another run holds a lock, or the failure is temporary
`

func (a *app) load(c *cobra.Command) (*config.Config, error) {
	return config.Load(config.Sources{Getenv: a.getenv, Flag: func(name string) (string, bool) {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.Type() == "int" { // demo --sites 3 is no setting
			return "", false
		}
		return f.Value.String(), true
	}})
}

// configured makes what cobra runs of a command that needs the settings.
func (a *app) configured(
	run func(c *cobra.Command, cfg *config.Config, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cfg, err := a.load(c)
		if err != nil {
			return err
		}
		a.warnOfName(cfg)
		a.warnOfVariables()
		return run(c, cfg, args)
	}
}

// warnOfVariables warns of variables that were meant to be settings.
func (a *app) warnOfVariables() {
	misspelt := config.Misspelt(os.Environ())
	for _, name := range slices.Sorted(maps.Keys(misspelt)) {
		fmt.Fprintf(a.stderr, "gpuboard: warning: the variable %s is no setting: did you mean %s?\n",
			failure.Printable(name), misspelt[name])
	}
}

// warnOfName warns of a gpuboard.yaml beside the configuration in force, which is not read.
func (a *app) warnOfName(cfg *config.Config) {
	places := []string{"gpuboard.yml", "/etc/gpuboard/gpuboard.yml"}
	for _, path := range places[:slices.Index(places, cfg.Path)+1] {
		other := strings.TrimSuffix(path, "yml") + "yaml"
		if !config.IsFile(other) {
			continue
		}
		mend := "mv " + other + " " + path
		if path == cfg.Path {
			mend = "diff " + path + " " + other
		}
		fmt.Fprintf(a.stderr,
			"gpuboard: warning: %s is not read, because the configuration is called gpuboard.yml\ngpuboard: hint: %s\n",
			other, mend)
	}
}

func (a *app) flags(c *cobra.Command, names ...string) {
	all := config.Keys() // which makes a table each time
	for _, name := range names {
		k := config.Among(all, name)
		usage := k.Help
		if k.Arg != "" {
			usage = strings.Replace(usage, k.Arg, "`"+k.Arg+"`", 1)
			if !strings.Contains(usage, "`") {
				usage = "`" + k.Arg + "`: " + usage
			}
		}
		if k.Kind == config.Boolean {
			c.Flags().Bool(k.Flag(), k.Default == "true", usage)
		} else {
			c.Flags().String(k.Flag(), k.DefaultHere(a.getenv), usage)
		}
		_ = c.Flags().SetAnnotation(k.Flag(), settingOf, []string{k.Name})
	}
}

// Root is the tree of commands as it is the same on every machine, for the reference,
// manual pages and completions. Its commands are not run.
func Root() *cobra.Command {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now,
		getenv: func(string) string { return "" }}
	root := a.root()
	root.Version = ""
	root.InitDefaultCompletionCmd("")
	for _, c := range root.Commands() {
		c.InitDefaultHelpFlag()
		for name, value := range map[string]string{"host": "", "spool": "/var/lib/gpuboard/spool",
			"state": "/var/lib/gpuboard/state"} {
			if f := c.Flags().Lookup(name); f != nil {
				f.DefValue = value
			}
		}
	}
	return root
}

// release is set by the linker: -ldflags "-X gpuboard/internal/cli.release=1.2.3".
var release string

// version is one word: "1.2.3", or "devel-<commit>" for a build from a checkout.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if rev := buildSetting(info, "vcs.revision"); len(rev) >= 12 {
		return "devel-" + rev[:12]
	}
	return "devel"
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "print the version", GroupID: groupSetup, Args: cobra.NoArgs,
		Example: "  gpuboard version\n  gpuboard version --json",
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintln(a.stdout, "gpuboard", version())
				return err
			}
			v := map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS,
				"arch": runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				v["commit"], v["date"] = buildSetting(info, "vcs.revision"), buildSetting(info, "vcs.time")
			}
			return writeJSON(a.stdout, v)
		},
	}
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}

// writeJSON writes one indented document and a line end.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// refuseRoot refuses to make files as root in a directory of another account.
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
	return failure.Usage("runuser -u "+owner.Username+" -- gpuboard "+shell.Join(a.args...),
		"%s belongs to %s, who could not change files that root creates there", dir, owner.Username)
}
