package ps

import (
	"slices"
	"strings"
	"testing"
)

// cmdline is what /proc/PID/cmdline holds: each argument, ended by a NUL.
func cmdline(argv ...string) []byte { return []byte(strings.Join(argv, "\x00") + "\x00") }

func TestProgram(t *testing.T) {
	for _, c := range []struct {
		want string
		argv []string
	}{
		{"", nil},
		{"", []string{"", "CANARY"}},
		{"sleep", []string{"/usr/bin/sleep", "5"}},
		{"bash", []string{"-bash"}},
		{"vllm", []string{"vllm", "serve", "model", "--api-key", "CANARY"}},
		{"", []string{"--token=CANARY"}},
		{"", []string{"TOKEN=CANARY", "x"}},
		{"", []string{"TOKEN=/x/CANARY"}},
		{"env", []string{"env", "TOKEN=CANARY", "prog"}},
		{"train", []string{"/home/CANARY/train"}},
		{"y.exe", []string{`C:\x\CANARY\y.exe`}},
		{"train.py", []string{"python3", `C:\x\CANARY\train.py`}},

		{"python3", []string{"python3"}},
		{"train.py", []string{"python3", "/home/CANARY/train.py", "--t", "CANARY"}},
		{"train.py", []string{"/opt/py/bin/python3.11", "-u", "train.py"}},
		{"train.py", []string{"python3", "/home/my CANARY/train.py"}},
		{"my", []string{"python3", "my own.py"}},
		{"t.py", []string{"python", "-uB", "-W", "ignore", "-X", "dev", "t.py"}},
		{"t.py", []string{"python", "-Wignore", "t.py"}},
		{"train.py", []string{"python3", "-W", "ignore::x CANARY", "train.py"}},
		{"t.py", []string{"python", "--", "t.py", "CANARY"}},
		{"python", []string{"python", "-c", "import CANARY"}},
		{"python", []string{"python", "-uc", "CANARY"}},
		{"python", []string{"python", "-"}},
		{"python", []string{"python", "", "CANARY"}},
		{"python", []string{"python", "--weird", "CANARY"}},
		{"python", []string{"python", "https://u:CANARY@h/x.py"}},
		{"python", []string{"python", "/dev/fd/63"}},
		{"python", []string{"python", "."}},
		{"python", []string{"python", "CANARY/"}},
		{"torch.distributed.run", []string{"python", "-m", "torch.distributed.run", "--nproc_per_node=8", "train.py"}},
		{"python3", []string{"python3", "-m", "CANARY x"}},
		{"python", []string{"python", "-m", "CANARY=1"}},
		{"python", []string{"python", "-m"}},
		{"python", []string{"python", "-um", "CANARY"}},
		{"jupyter", []string{"python", "-u", "-m", "ipykernel_launcher", "-f", "/x/CANARY.json"}},
		{"jupyter", []string{"python3", "/x/ipykernel_launcher.py", "-f", "CANARY"}},
		{"torchrun", []string{"/usr/bin/python3", "/opt/conda/bin/torchrun", "--n", "8", "train.py"}},

		{"run.sh", []string{"bash", "run.sh", "CANARY"}},
		{"job.sh", []string{"sh", "-eu", "-o", "pipefail", "job.sh"}},
		{"bash", []string{"bash", "-oe", "CANARY", "job.sh"}},
		{"bash", []string{"bash", "-c", "CANARY", "CANARY"}},
		{"bash", []string{"bash", "-lc", "CANARY"}},
		{"bash", []string{"bash", "-s", "CANARY"}},
		{"bash", []string{"bash", "+o", "CANARY"}},
		{"bash", []string{"bash", "--login"}},
		{"bash", []string{"bash", "--rcfile", "CANARY"}},
		{"x.pl", []string{"perl", "-w", "-I", "CANARY", "x.pl"}},
		{"perl", []string{"perl", "-e", "CANARY"}},
		{"perl", []string{"perl", "-ne", "CANARY"}},
		{"x.rb", []string{"ruby", "-rjson", "-C", "/d CANARY", "x.rb"}},
		{"ruby", []string{"ruby", "-e", "CANARY"}},
		{"srv.js", []string{"node", "--max-old-space-size=4096", "-r", "CANARY", "srv.js", "--key", "CANARY"}},
		{"node", []string{"node", "-e", "CANARY"}},
		{"node", []string{"node", "--unheard-of", "CANARY"}},
		{"fit.R", []string{"Rscript", "--vanilla", "fit.R", "CANARY"}},
		{"Rscript", []string{"Rscript", "-e", "CANARY"}},
		{"fit.R",
			[]string{"/usr/lib/R/bin/exec/R", "--no-echo", "--no-restore", "--file=CANARY/fit.R", "--args", "CANARY"}},
		{"fit.R", []string{"R", "-f", "fit.R"}},
		{"R", []string{"R", "--no-echo", "-e", "CANARY"}},
		{"R", []string{"R", "CANARY"}},
		{"sim.jl", []string{"julia", "--project=/a CANARY", "-t", "8", "sim.jl", "CANARY"}},
		{"sim.jl", []string{"julia", "-O3", "sim.jl"}},
		{"julia", []string{"julia", "-O", "CANARY", "sim.jl"}},
		{"julia", []string{"julia", "-e", "CANARY"}},
		{"app.jar", []string{"java", "-Xmx4g", "-jar", "/opt/x/app.jar", "--key", "CANARY"}},
		{"org.example.Main",
			[]string{"java", "-Dkey=x CANARY", "-XX:OnError=kill CANARY", "-cp", "a.jar:CANARY", "org.example.Main",
				"--k"}},
		{"org.example.Main", []string{"java", "--enable-native-access", "CANARY", "org.example.Main"}},
		{"java", []string{"java", "--unheard-of", "CANARY"}},
		{"java", []string{"java", "@CANARY"}},
		{"java", []string{"java", "@/home/ann/CANARY", "org.example.CANARY"}},
		{"java", []string{"java", "-Xmx4g", "-jar", "@x/CANARY.jar"}},
		{"java", []string{"/usr/bin/java", "-cp", "a.jar", `@C:\x\CANARY`}},
		{"pythonic", []string{"pythonic", "CANARY"}},

		// Titles that a process gave to itself. The rest of argv is what was left over.
		{"ray::train", []string{"ray::train(CANARY)"}},
		{"ray::IDLE", []string{"ray::IDLE", "", "", ""}},
		{"sglang::scheduler_TP0", []string{"sglang::scheduler_TP0"}},
		{"token", []string{"token:CANARY trainer"}},
		{"trainer", []string{"trainer CANARY", "ANARY.py"}},
		{"sshd", []string{"sshd: CANARY [priv]"}},
		{"nginx", []string{"nginx: worker process"}},
		{"python3", []string{"/usr/bin/python3 /home/x/train.py --token=CANARY"}},
		{"python3", []string{"python3 x/python3", "CANARY"}},
		{"", []string{"/home/CANARY x/prog"}},
		{"python3", []string{"[python3 train] <defunct>"}},
		{"kworker", []string{"[kworker/u257:3-fake]"}},
		{"a" + strings.Repeat("b", 60) + "…", []string{"a" + strings.Repeat("b", 99)}},
	} {
		if got := Program(cmdline(c.argv...)); got != c.want {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
	padded := append(cmdline("trainer: CANARY"), make([]byte, 900)...)
	if got := Program(padded); got != "trainer" {
		t.Errorf("a padded title: %q", got)
	}
	for _, argv := range [][]string{{"python3", "-u", "/very/long/CANARY"}, {"/very/long/CANARY"}} {
		full := cmdline(argv...)
		long := slices.Concat(full[:len(full)-1], []byte(strings.Repeat("x", MaxCommandLineBytes)))
		if got := Program(long); strings.Contains(got, "CANARY") {
			t.Errorf("half an argument is taken for the script: %q", got)
		}
	}
}

// A process may set its title, a whole line, as argv[0]. Where an argument begins cannot
// be seen there: the program alone is named.
func TestTitleInArgv0(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "",
		" x":                               "",
		"/usr/bin/sleep 5":                 "sleep",
		"-bash":                            "bash",
		"sshd: anna [priv]":                "sshd",
		"[kworker/u257:3-fake]":            "kworker",
		"[python3 train] <defunct>":        "python3",
		"nvidia-cuda-mps-server":           "nvidia-cuda-mps-server",
		"vllm serve /x/model --key CANARY": "vllm",
		"--token=CANARY":                   "",
		"TOKEN=CANARY x":                   "",
		"TOKEN=/x/CANARY":                  "",
		"python3 -W ignore::x CANARY t.py": "python3",
		"/usr/bin/python3 /home/x/t.py":    "python3",
		"java -Dx=x CANARY":                "java",
		"java -XX:OnError=kill CANARY":     "java",
		"julia --project=/a CANARY":        "julia",
		"python3 -m CANARY x":              "python3",
		"ruby -C /d CANARY":                "ruby",
		"ray::train(CANARY)":               "ray::train",
		"token:CANARY trainer":             "token",
		`C:\x\CANARY\y.exe`:                "y.exe",
		"/home/CANARY x/prog":              "",
		"/home/CANARY(1)/prog":             "",
		"bash -c CANARY":                   "bash",
		"sglang::scheduler_TP0":            "sglang::scheduler_TP0",
		"a:::CANARY":                       "a::",
		"[name,CANARY]":                    "name",
		"[name\u2003CANARY]":               "name",
		"java @/x/CANARY":                  "java",
		"python3\u2003/x/CANARY":           "python3",
	} {
		if got := Program(cmdline(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	ends := ",;|#[{\"'`( \t\n\v\f\r\x01\x1b\x1c\x7f\u0085\u00a0\u1680\u2003\u2028\u202f\u205f\u3000" +
		"\u00ad\u180e\u200b\u200e\u2060\ufeff"
	for _, end := range ends {
		line := "trainer" + string(end) + "CANARY"
		if got := Program(cmdline(line)); got != "trainer" {
			t.Errorf("%q: %q", line, got)
		}
		if got := Program(cmdline("/opt/bin/"+line, "x")); got != "trainer" {
			t.Errorf("%q: %q, by its path", line, got)
		}
		if got := firstWord(line); got != "trainer" {
			t.Errorf("%q: %q, as nvidia-smi lists it", line, got)
		}
	}
}

// Whatever stands before and behind it: a secret that is in another argument
// than the last element of the program's or the script's own path is not shown.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{"python3 -u", "python3 -W", "bash -lc", "bash -o", "java -cp a", "java -D", "node",
		"Rscript --vanilla",
		"/usr/lib/R/bin/exec/R", "R -f", "[x]", "python3 --", "python3 -m x", "perl -Ilib", "ruby -C", "julia -O",
		"julia -p", "env", "ray::x(", ""} {
		f.Add(s, "x.py")
	}
	const secret = "KANARI7"
	f.Fuzz(func(t *testing.T, before, script string) {
		if strings.Contains(before+script, secret) {
			return
		}
		argv := strings.Split(before, " ")
		for _, c := range [][]string{
			append(slices.Clone(argv), "--token="+secret, script),
			append(slices.Clone(argv), secret+"=1", script),
			append(slices.Clone(argv), "https://u:"+secret+"@h/x", script),
			append(slices.Clone(argv), "x "+secret+"/"+script+"x"),
			{"/home/" + secret + "/x", before, script},
			{"/home/" + secret + " x/prog", before, script},
			{"trainer(" + secret + ")", before, script},
			{"trainer, " + secret, before}, {"trainer\u2003" + secret, before}, {"trainer{\"key\":\"" + secret, before},
			{"java", "@/x/" + secret, script}, {"java", "-cp", before, "@" + secret, script},
			{"token:" + secret + " " + before, script},
			{"python3", "-c", before, secret}, {"bash", "-c", before, secret}, {"node", "-e", before, secret},
			{"perl", "-e", before, secret},
			{"python3", "-W", secret, script}, {"python3", "-m", before + " " + secret},
			{"java", "-cp", secret, "-D" + secret, script},
			{"ruby", "-C", secret, script}, {"julia", "--project=" + secret, script}, {"julia", "-O", secret, script},
		} {
			got := Program(cmdline(c...))
			if strings.Contains(got, secret) || len(got) > 64 || strings.ContainsAny(got, " \n\x1b/(") {
				t.Fatalf("%q: %q", c, got)
			}
			if line := Program(cmdline(strings.Join(c, " "))); strings.Contains(line, secret) {
				t.Fatalf("%q in a line: %q", c, line)
			}
		}
	})
}

func TestBaseName(t *testing.T) {
	for in, want := range map[string]string{
		"/opt/conda/bin/python": "python", "python3 train.py --token=X": "python3", "": "", "[Insufficient Permissions]": "", "N/A": "",
		`C:\Program Files\Blender\blender.exe`: "blender.exe", `C:\x y`: "", "sglang::scheduler": "sglang::scheduler", "--token=X": "", "KEY=X": "",
		"/usr/lib/xorg/Xorg": "Xorg", "ray::train(KEY)": "ray::train", "token:KEY trainer": "token", "KEY=/x/y": "", `\\x\KEY\y.exe`: "y.exe",
		"nginx: worker": "nginx",
	} {
		if got := BaseName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
