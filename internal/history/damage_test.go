package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func TestDamagedDatabasesAreMovedAside(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"zeroed header":  func(t *testing.T, path string) { overwrite(t, path, 0, make([]byte, 100)) },
		"not a database": func(t *testing.T, path string) { write(t, path, []byte(strings.Repeat("gpu ", 5000))) },
		"zeroed schema":  func(t *testing.T, path string) { overwrite(t, path, 100, make([]byte, 3000)) },
		"truncated":      func(t *testing.T, path string) { truncate(t, path, 9000) },
		"noise in a tree": func(t *testing.T,
			path string) {
			overwrite(t, path, 4096, bytes.Repeat([]byte{0xa5}, 40000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, now := filled(t)
			spoil(t, path)
			s := openAt(t, path, now, history.Options{})
			if got := codes(s, now); got != "history:rebuilt" {
				t.Errorf("problems are %q", got)
			}
			if old, _ := filepath.Glob(path + ".corrupt-*Z"); len(old) != 1 {
				t.Errorf("aside lies %v", old)
			}
			ingest(t, s, now, "gpu1", "boot", []snapshot.Sample{{Seq: 1, At: now}})
			if covered(t, s, "gpu1", t0, now.Add(time.Hour)) == 0 {
				t.Error("the new history takes nothing")
			}
			s.Close()
			again := openAt(t, path, now.Add(time.Hour), history.Options{})
			if got := codes(again, now.Add(time.Hour)); got != "history:rebuilt" {
				t.Errorf("an hour later the problems are %q", got)
			}
			if got := codes(again, now.Add(25*time.Hour)); got != "" {
				t.Errorf("a day later the problems are %q", got)
			}
		})
	}
}

func TestOnlyTheNewestTwoDamagedFilesAreKept(t *testing.T) {
	path, now := filled(t)
	for i := range 5 {
		write(t, path, []byte(strings.Repeat("noise", 2000)))
		at := now.Add(time.Duration(i) * time.Minute)
		openAt(t, path, at, history.Options{}).Close()
	}
	old, _ := filepath.Glob(path + ".corrupt-*")
	if len(old) != 2 {
		t.Errorf("aside lie %v", old)
	}
}

func TestLostIndexAndTornLogLoseNothingOld(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"no shm":         func(t *testing.T, path string) { os.Remove(path + "-shm") },
		"torn log":       func(t *testing.T, path string) { truncate(t, path+"-wal", -1234) },
		"log of noise":   func(t *testing.T, path string) { write(t, path+"-wal", bytes.Repeat([]byte{7}, 5000)) },
		"empty log":      func(t *testing.T, path string) { write(t, path+"-wal", nil) },
		"shm of garbage": func(t *testing.T, path string) { write(t, path+"-shm", bytes.Repeat([]byte{9}, 32768)) },
	} {
		t.Run(name, func(t *testing.T) {
			path, now := filled(t)
			// A second store keeps the log alive, as a killed process would leave it.
			s := openAt(t, path, now, history.Options{})
			ingest(t, s, now, "gpu1", "new", []snapshot.Sample{{Seq: 1, At: now}})
			copied := newPath(t)
			for _, suffix := range []string{"", "-wal", "-shm"} {
				b, err := os.ReadFile(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				write(t, copied+suffix, b)
			}
			spoil(t, copied)
			c := openAt(t, copied, now, history.Options{})
			if got := codes(c, now); got != "" {
				t.Errorf("problems are %q", got)
			}
			us, err := userTotalsOf(c, t0, now)
			if err != nil || len(us) != 1 {
				t.Fatal(us, err)
			}
			near(t, "GPU-hours", us[0].GPUHours, 5, 0.02)
		})
	}
}

func TestADamagedRecordIsPassedOver(t *testing.T) {
	path, now := filled(t)
	s := openAt(t, path, now, history.Options{})
	change(t, path, "update hour set data=zeroblob(50) where id = (select min(id) from hour)")
	vs, _ := meansOf(t, s, "gpu1", "GPU-gpu1-0", history.Utilization,
		history.Steps(t0, t0.Add(2*time.Hour), 5*time.Minute)...)
	if len(vs) != 24 || !math.IsNaN(vs[2]) || !math.IsNaN(vs[11]) || vs[20] != 50 {
		t.Errorf("the damaged hour and the next show %v", vs)
	}
	if got := codes(s, now); got != "history:record" {
		t.Errorf("problems are %q", got)
	}
}

func TestDamageThatAQueryMeetsIsSetAsideByTheNextIngest(t *testing.T) {
	ctx := context.Background()
	path, now := filled(t)
	s := openAt(t, path, now, history.Options{})
	// One page that taking a sample does not touch, now that none has waited long.
	ingest(t, s, now.Add(time.Hour), "gpu1", "x", []snapshot.Sample{{Seq: 2, At: now.Add(time.Hour)}})
	ingest(t, s, now.Add(time.Hour), "gpu1", "x", []snapshot.Sample{{Seq: 3, At: now.Add(time.Hour)}})
	now = now.Add(time.Hour)
	page := int64(number(t, path, "select rootpage from sqlite_schema where name='day'"))
	change(t, path, "delete from fleet") // SQLite forgets the pages it has when somebody else wrote
	change(t, path, "pragma wal_checkpoint(truncate)")
	overwrite(t, path, (page-1)*pageSize, bytes.Repeat([]byte{0xff}, pageSize))
	if _, _, err := s.HostMeans(ctx, "gpu1", []time.Time{t0, now}, history.Power); err == nil {
		t.Fatal("nobody notices")
	}
	sample := []snapshot.Sample{{Seq: 1, At: now}}
	err := s.IngestAll(ctx, now, []history.Batch{batchOf("gpu1", "x", sample...)})
	if !errors.Is(err, history.ErrRebuilt) {
		t.Fatalf("the error is %v", err)
	}
	ingest(t, s, now, "gpu1", "x", sample)
	if covered(t, s, "gpu1", t0, now.Add(time.Hour)) == 0 {
		t.Error("the second try takes nothing")
	}
	if got := codes(s, now); got != "history:rebuilt" {
		t.Errorf("problems are %q", got)
	}
}

func TestNoSpace(t *testing.T) {
	need.Root(t)
	ctx := context.Background()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		need.Skip(t, fmt.Sprintf("mounting a small disk: %v", err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "history.db")
	s := openAt(t, path, t0, history.Options{})
	r := rand.New(rand.NewPCG(1, 1))
	var taken time.Time // up to here
	var refused []snapshot.Sample
	at, seq, full := t0, uint64(0), 0
	for full < 3 && seq < 1_000_000 {
		var batch []snapshot.Sample
		for range 90 {
			at, seq = at.Add(20*time.Second), seq+1
			batch = append(batch, noisy(r, 0, seq, at))
		}
		err := s.IngestAll(ctx, at, []history.Batch{{Host: "gpu1", Boot: "boot", Samples: batch}})
		switch {
		case errors.Is(err, history.ErrNoSpace):
			full, refused = full+1, append(refused, batch...)
			if got := codes(s, at); got != "history:nospace" {
				t.Errorf("problems are %q", got)
			}
			if _, err := s.Recent(ctx, at, time.Hour, 5); err != nil {
				t.Errorf("the board has no past: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			taken, refused = at, nil
		}
	}
	if full == 0 || taken.IsZero() {
		t.Fatalf("full %d times after %d samples", full, seq)
	}
	// More room, and what was refused is new still. To another process nothing is lost or damaged either.
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	ingest(t, s, at, "gpu1", "boot", refused)
	for range 2 {
		if got := codes(s, at); got != "" {
			t.Errorf("problems are %q", got)
		}
		first := t0.Add(5 * time.Minute)
		near(t, "seconds known", covered(t, s, "gpu1", first, at), at.Sub(first).Seconds(), 1)
		s.Close()
		s = openAt(t, path, at, history.Options{})
	}
	checkIntegrity(t, path)
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	var verdict string
	err := database(t, path).QueryRowContext(context.Background(), "pragma integrity_check").Scan(&verdict)
	if err != nil || verdict != "ok" {
		t.Errorf("integrity: %s (%v)", verdict, err)
	}
}

const killedEnv = "GPUBOARD_HISTORY_INGEST"

// TestMain lets the test binary be the process that is killed: it takes ticks
// for ever, and says each number only after the tick was acknowledged.
func TestMain(m *testing.M) {
	path := os.Getenv(killedEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	var first uint64
	fmt.Sscan(os.Getenv(killedEnv+"_FROM"), &first)
	s, err := history.Open(context.Background(), path, killTime(first), history.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for seq := first; ; seq++ {
		if err := s.IngestAll(context.Background(), killTime(seq), killTick(seq)); err != nil {
			fmt.Println("refused", err)
			os.Exit(1)
		}
		fmt.Println(seq)
	}
}

func killTime(seq uint64) time.Time { return t0.Add(time.Duration(seq) * time.Minute) }

func killTick(seq uint64) []history.Batch {
	var bs []history.Batch
	for h := range 8 {
		r := rand.New(rand.NewPCG(seq, uint64(h)))
		bs = append(bs, batchOf(fmt.Sprintf("gpu%d", h), "boot", noisy(r, h, seq, killTime(seq))))
	}
	return bs
}

func TestKilledProcessesLoseNothingAcknowledged(t *testing.T) {
	t.Parallel()
	need.Time(t, "starts 60 processes")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := newPath(t)
	r := rand.New(rand.NewPCG(4, 2))
	next := uint64(1)
	for cycle := range 60 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), killedEnv+"="+path, fmt.Sprintf("%s_FROM=%d", killedEnv, next))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed after some ticks, and some way into the next one.
		acked, after := next-1, uint64(1+r.IntN(12))
		for acked < next-1+after {
			var seq uint64
			if _, err := fmt.Fscanln(out, &seq); err != nil {
				t.Fatalf("cycle %d: reading from the process: %v", cycle, err)
			}
			acked = seq
		}
		for spin := r.IntN(200_000); spin > 0; spin-- {
			_ = spin * spin
		}
		cmd.Process.Kill()
		for {
			var seq uint64
			if _, err := fmt.Fscanln(out, &seq); err != nil {
				break
			}
			acked = seq
		}
		cmd.Wait()
		s, err := history.Open(context.Background(), path, killTime(acked), history.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := codes(s, killTime(acked)); got != "" {
			t.Fatalf("cycle %d: problems are %q", cycle, got)
		}
		for h := range 8 {
			name := fmt.Sprintf("gpu%d", h)
			want := killTime(acked).Sub(killTime(1)).Seconds() - 1
			if got := covered(t, s, name, t0, killTime(acked).Truncate(5*time.Minute).Add(5*time.Minute)); got < want {
				t.Fatalf("cycle %d: %v s of %s are known, and %v were acknowledged", cycle, got, name, want)
			}
		}
		next = acked + 1 // again, if it was taken and killed before it could say so
		if cycle%10 == 9 {
			checkIntegrity(t, path)
		}
		s.Close()
	}
	// And what is there is what one process would have.
	s := openAt(t, path, killTime(next), history.Options{})
	// The last process may have taken this tick without saying so.
	if err := s.IngestAll(context.Background(), killTime(next), killTick(next)); err != nil {
		t.Fatal(err)
	}
	whole := open(t, history.Options{})
	for seq := uint64(1); seq <= next; seq++ {
		if err := whole.IngestAll(context.Background(), killTime(seq), killTick(seq)); err != nil {
			t.Fatal(err)
		}
	}
	hosts := []string{"gpu0", "gpu7"}
	end := killTime(next)
	if a, b := fingerprint(t, whole, hosts, t0, end, end), fingerprint(t, s, hosts, t0, end, end); a != b {
		t.Error("the answers differ ", firstDifference(a, b))
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if size < 0 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// TestAnEmptiedHistoryIsSaid: a file without a byte, such as a full disk leaves, is not a new history.
func TestAnEmptiedHistoryIsSaid(t *testing.T) {
	path, now := filled(t)
	for _, left := range []string{"-wal", "-shm"} {
		os.Remove(path + left)
	}
	truncate(t, path, 0)
	s := openAt(t, path, now, history.Options{})
	if got := codes(s, now); got != "history:rebuilt" {
		t.Errorf("problems are %q", got)
	}
	fresh := openAt(t, newPath(t), now, history.Options{})
	if got := codes(fresh, now); got != "" {
		t.Errorf("a new one has the problems %q", got)
	}
}
