package ps

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// line is a row as procps 4.0 prints it: the user padded by bytes.
func line(pid, ppid, pgid, uid, etimes int64, user, stat, args string) string {
	return fmt.Sprintf("%10d %10d %10d %11d %12d %-64s %-8s %s\n", pid, ppid, pgid, uid, etimes, user+strings.Repeat(" ", max(0, 64-len(user))), stat, args)
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Process
	}{
		{"plain", line(17, 1, 17, 1000, 5, "anna", "Ss", "/usr/bin/python3 train.py --lr 1"), Process{17, 1, 17, 1000, 5, 'S', "anna", "python3"}},
		{"UTF-8, padded by bytes", line(17, 1, 17, 1000, 5, "jürgen", "R+", "sleep 5"), Process{17, 1, 17, 1000, 5, 'R', "jürgen", "sleep"}},
		{"UTF-8, padded by characters", strings.Replace(line(17, 1, 17, 1000, 5, "jXrgen", "R", "sleep 5"), "jX", "jü", 1), Process{17, 1, 17, 1000, 5, 'R', "jürgen", "sleep"}},
		{"UTF-8, padded by columns", strings.Replace(line(17, 1, 17, 1000, 5, "XXXXXX", "R", "sleep 5"), "XXXXXX", "日本語", 1), Process{17, 1, 17, 1000, 5, 'R', "日本語", "sleep"}},
		{"blanks in the user", line(17, 1, 17, 20006, 5, "user with space", "S", "a b"), Process{17, 1, 17, 20006, 5, 'S', "user with space", "a"}},
		{"a user that looks like a state", line(17, 1, 17, 20006, 5, "Peter S root", "S", "a"), Process{17, 1, 17, 20006, 5, 'S', "Peter S root", "a"}},
		{"domain", line(17, 1, 17, 7, 5, `DOMAIN\anna.schmidt@corp.example`, "S", "a"), Process{17, 1, 17, 7, 5, 'S', `DOMAIN\anna.schmidt@corp.example`, "a"}},
		{"digits", line(17, 1, 17, 7, 5, "12345", "S", "a"), Process{17, 1, 17, 7, 5, 'S', "12345", "a"}},
		{"uid of 32 bits", line(17, 1, 17, -3, 5, "4294967293", "S", "a"), Process{17, 1, 17, 4294967293, 5, 'S', "4294967293", "a"}},
		{"a cut user", line(17, 1, 17, 77, 5, strings.Repeat("u", 63)+"+", "S", "a"), Process{17, 1, 17, 77, 5, 'S', "77", "a"}},
		{"a user that ends in +", line(17, 1, 17, 77, 5, "anna+", "S", "a"), Process{17, 1, 17, 77, 5, 'S', "anna+", "a"}},
		{"an escape in the user", line(17, 1, 17, 77, 5, "a\x1b[31m", "S", "a"), Process{17, 1, 17, 77, 5, 'S', `a\x1b[31m`, "a"}},
		{"no arguments", strings.TrimRight(line(17, 1, 17, 7, 5, "anna", "S", ""), "\n"), Process{17, 1, 17, 7, 5, 'S', "anna", ""}},
		{"empty argv[0]", line(17, 1, 17, 7, 5, "anna", "S", " --token=CANARY"), Process{17, 1, 17, 7, 5, 'S', "anna", ""}},
		{"zombie", line(17, 1, 17, 7, 5, "anna", "Zl", "[my (odd) proc)] <defunct>"), Process{17, 1, 17, 7, 5, 'Z', "anna", "my"}},
		{"a row in the arguments", line(17, 1, 17, 7, 5, "anna", "S", "python3 line1 line2 root     1 0 fake row"), Process{17, 1, 17, 7, 5, 'S', "anna", "python3"}},
		{"single blanks", "17 1 17 7 5 anna Ss bash -c x\n", Process{17, 1, 17, 7, 5, 'S', "anna", "bash"}},
		{"CRLF", "17 1 17 7 5 anna Ss bash\r\n", Process{17, 1, 17, 7, 5, 'S', "anna", "bash"}},
		{"a time that no node has been up", line(17, 1, 17, 7, 4123168608, "anna", "S", "a"), Process{17, 1, 17, 7, -1, 'S', "anna", "a"}},
		{"a clock that ran back", line(17, 1, 17, 7, -4, "anna", "S", "a"), Process{17, 1, 17, 7, 0, 'S', "anna", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, problems := Parse([]byte(c.line))
			if len(list) != 1 || list[0] != c.want || len(problems) != 0 {
				t.Errorf("%+v %v\nwant %+v", list, problems, c.want)
			}
		})
	}
}

func TestLinesThatAreNotUnderstoodAreCounted(t *testing.T) {
	out := "    PID COMMAND\n\n" + line(1, 0, 1, 0, 9, "root", "Ss", "init") + "error: garbage\n12 x\n0 0 0 0 0 u S x\n"
	list, problems := Parse([]byte(out))
	if len(list) != 1 || len(problems) != 1 || problems[0].Code != "ps:parse" || !strings.HasPrefix(problems[0].Message, "4 lines") {
		t.Errorf("%+v %v", list, problems)
	}
}

func TestOutputIsBounded(t *testing.T) {
	row := []byte(line(1, 0, 1, 0, 9, "root", "Ss", strings.Repeat("x", 3000)))
	list, problems := Parse(bytes.Repeat(row, MaxOutputBytes/len(row)+10))
	if len(problems) != 1 || problems[0].Code != "ps:limit" || len(list) > MaxOutputBytes/len(row) {
		t.Errorf("%d processes, %v", len(list), problems)
	}
}

// Against the ps of this machine: everything that the arguments ask for comes
// back as asked, with a name of its own and in the time that it says.
func TestTheRealPS(t *testing.T) {
	program := need.Program(t, "ps")
	child := exec.Command("sleep", "600", "--")
	child.Args = []string{"/opt/x/worker one", "600"}
	began := time.Now()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	cmd := exec.Command(program, Args()...)
	cmd.Env = Env()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: is it procps?", err)
	}
	list, problems := Parse(out)
	if len(problems) != 0 {
		t.Error(problems)
	}
	found := 0
	for _, p := range list {
		switch p.PID {
		case child.Process.Pid:
			found++
			if p.PPID != os.Getpid() || p.UID != int64(os.Getuid()) || p.Program != "worker" || p.Elapsed > int64(time.Since(began).Seconds())+2 || p.Zombie() || p.User == "" {
				t.Errorf("the child is %+v", p)
			}
		case os.Getpid():
			found++
			// Its path and those among its arguments look like one with a blank.
			if p.Program != "" && p.Program != filepath.Base(os.Args[0]) {
				t.Errorf("this process is %+v", p)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 processes found", found)
	}
}

// The rows of the captures of the real ps, laid out anew in our columns: every
// user and every odd argument list is read whole.
func TestRealRowsInOurColumns(t *testing.T) {
	file := "../../../shared/fixtures/ps/local-procps402-eo-user32-lstart-etimes-args-ww.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err) // the captures do not belong to the project, and may be elsewhere
	}
	row := regexp.MustCompile(`^ *(\d+) +(\d+) (.{1,40}?) +(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}) +(\d+) (.*)$`)
	n := 0
	for raw := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimRight(raw, "\n"))
		if m == nil {
			continue
		}
		n++
		pid, _ := strconv.ParseInt(m[1], 10, 64)
		ppid, _ := strconv.ParseInt(m[2], 10, 64)
		state := "S"
		if strings.HasSuffix(m[6], "<defunct>") {
			state = "Z"
		}
		list, problems := Parse([]byte(line(pid, ppid, pid, 20001, 2, m[3], state, m[6])))
		if len(list) != 1 || len(problems) != 0 || list[0].User != m[3] || list[0].PID != int(pid) {
			t.Errorf("%q: %+v %v", raw, list, problems)
			continue
		}
		for _, secret := range []string{"llama", "31m", "Llama-3", "nproc", "fake"} {
			if strings.Contains(list[0].Program, secret) && !strings.HasPrefix(m[6], "[") {
				t.Errorf("%q: an argument is in %q", raw, list[0].Program)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d rows", n)
	}
}

func FuzzPS(f *testing.F) {
	f.Add([]byte(line(17, 1, 17, 1000, 5, "jürgen", "R+", "python3 -u x.py")))
	f.Add([]byte("17 1 17 7 5 anna Ss bash -c x\n\xff\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		list, problems := Parse(out)
		if len(list) > bytes.Count(out, []byte{'\n'})+1 || len(problems) > 2 {
			t.Fatalf("%d processes, %d problems", len(list), len(problems))
		}
		for _, p := range list {
			if p.PID < 1 || p.UID < 0 || p.Elapsed < -1 || p.User == "" || len(p.User) > 128 || len(p.Program) > 64 || strings.ContainsAny(p.User+p.Program, "\x1b\n\x00") {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func BenchmarkParse1000(b *testing.B) {
	var out bytes.Buffer
	for i := range int64(1000) {
		out.WriteString(line(i+1, 1, i+1, 1000, 5, "anna", "Ss", "/usr/bin/python3 -u /home/anna/train.py --lr 1 --model "+strings.Repeat("x", 80)))
	}
	for b.Loop() {
		Parse(out.Bytes())
	}
}
