package ps

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// line is a row as procps prints it.
func line(pid, ppid, pgid, uid, etimes int64, user, stat string) string {
	return fmt.Sprintf("%7d %7d %7d %5d %7d %-4s %s\n", pid, ppid, pgid, uid, etimes, stat, user)
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Process
	}{
		{"plain", line(17, 1, 17, 1000, 5, "anna", "Ss"), Process{17, 1, 17, 1000, 5, 'S', "anna"}},
		{"UTF-8", line(17, 1, 17, 1000, 5, "jürgen", "R+"), Process{17, 1, 17, 1000, 5, 'R', "jürgen"}},
		{"wide characters", line(17, 1, 17, 1000, 5, "日本語", "R"), Process{17, 1, 17, 1000, 5, 'R', "日本語"}},
		{"blanks in the user", line(17, 1, 17, 20006, 5, "user with space", "S"),
			Process{17, 1, 17, 20006, 5, 'S', "user with space"}},
		{"a user that looks like a state", line(17, 1, 17, 20006, 5, "Peter S root", "S"),
			Process{17, 1, 17, 20006, 5, 'S', "Peter S root"}},
		{"domain", line(17, 1, 17, 7, 5, `DOMAIN\anna.schmidt@corp.example`, "S"),
			Process{17, 1, 17, 7, 5, 'S', `DOMAIN\anna.schmidt@corp.example`}},
		{"digits", line(17, 1, 17, 7, 5, "12345", "S"), Process{17, 1, 17, 7, 5, 'S', "12345"}},
		{"uid of 32 bits", line(17, 1, 17, -3, 5, "4294967293", "S"),
			Process{17, 1, 17, 4294967293, 5, 'S', "4294967293"}},
		{"a cut user", line(17, 1, 17, 77, 5, strings.Repeat("u", 63)+"+", "S"), Process{17, 1, 17, 77, 5, 'S', "77"}},
		{"a user that ends in +", line(17, 1, 17, 77, 5, "anna+", "S"), Process{17, 1, 17, 77, 5, 'S', "anna+"}},
		{"an escape in the user", line(17, 1, 17, 77, 5, "a\x1b[31m", "S"),
			Process{17, 1, 17, 77, 5, 'S', `a\x1b[31m`}},
		{"zombie", line(17, 1, 17, 7, 5, "anna", "Zl"), Process{17, 1, 17, 7, 5, 'Z', "anna"}},
		{"single blanks", "17 1 17 7 5 Ss anna\n", Process{17, 1, 17, 7, 5, 'S', "anna"}},
		{"padded", strings.TrimRight(line(17, 1, 17, 7, 5, "anna", "S"), "\n") + strings.Repeat(" ", 60) + "\n",
			Process{17, 1, 17, 7, 5, 'S', "anna"}},
		{"CRLF", "17 1 17 7 5 Ss anna\r\n", Process{17, 1, 17, 7, 5, 'S', "anna"}},
		{"a time that no node has been up", line(17, 1, 17, 7, 4123168608, "anna", "S"),
			Process{17, 1, 17, 7, -1, 'S', "anna"}},
		{"a clock that ran back", line(17, 1, 17, 7, -4, "anna", "S"), Process{17, 1, 17, 7, 0, 'S', "anna"}},
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
	out := "    PID COMMAND\n\n" + line(1, 0, 1, 0, 9, "root", "Ss") +
		"error: garbage\n12 x\n0 0 0 0 0 S u\n1 0 0 0 0 S\n"
	list, problems := Parse([]byte(out))
	if len(list) != 1 || len(problems) != 1 || problems[0].Code != "ps:parse" ||
		!strings.HasPrefix(problems[0].Message, "5 lines") {
		t.Errorf("%+v %v", list, problems)
	}
}

func TestOutputIsBounded(t *testing.T) {
	row := []byte(line(1, 0, 1, 0, 9, strings.Repeat("x", 3000), "Ss"))
	list, problems := Parse(bytes.Repeat(row, MaxOutputBytes/len(row)+10))
	if len(problems) != 1 || problems[0].Code != "ps:limit" || len(list) > MaxOutputBytes/len(row) {
		t.Errorf("%d processes, %v", len(list), problems)
	}
}

// Against the ps of this machine: everything that the arguments ask for comes
// back, and no argument of any process.
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
	if bytes.Contains(out, []byte("worker")) {
		t.Error("ps prints arguments")
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
			if p.PPID != os.Getpid() || p.UID != int64(os.Getuid()) ||
				p.Elapsed > int64(time.Since(began).Seconds())+2 || p.Zombie() || p.User == "" {
				t.Errorf("the child is %+v", p)
			}
		case os.Getpid():
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 processes found", found)
	}
}

func FuzzPS(f *testing.F) {
	f.Add([]byte(line(17, 1, 17, 1000, 5, "jürgen", "R+")))
	f.Add([]byte("17 1 17 7 5 Ss anna\n\xff\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		list, problems := Parse(out)
		if len(list) > bytes.Count(out, []byte{'\n'})+1 || len(problems) > 2 {
			t.Fatalf("%d processes, %d problems", len(list), len(problems))
		}
		for _, p := range list {
			if p.PID < 1 || p.UID < 0 || p.Elapsed < -1 || p.User == "" || len(p.User) > 128 ||
				strings.ContainsAny(p.User, "\x1b\n\x00") {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func BenchmarkParse1000(b *testing.B) {
	var out bytes.Buffer
	for i := range int64(1000) {
		out.WriteString(line(i+1, 1, i+1, 1000, 5, "anna", "Ss"))
	}
	for b.Loop() {
		Parse(out.Bytes())
	}
}
