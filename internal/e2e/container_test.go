package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

const containerfile = "deploy/container/Containerfile"

// An image is what a container engine would run.
type image struct {
	root       string // its files
	env        []string
	user       string
	entrypoint []string
	cmd        []string
}

// interpreted is the image that the recipe describes, made without an engine:
// the recipe is short enough to be carried out line by line.
func interpreted(t *testing.T, context string) image {
	im := image{root: t.TempDir()}
	args := map[string]string{}
	fill := regexp.MustCompile(`\$\{(\w+)\}`)
	for line := range strings.Lines(mustReadFile(t, containerfile)) {
		line = fill.ReplaceAllStringFunc(strings.TrimSpace(line), func(v string) string { return args[v[2:len(v)-1]] })
		verb, rest, _ := strings.Cut(line, " ")
		words := strings.Fields(rest)
		var list []string
		if strings.HasPrefix(rest, "[") {
			if err := json.Unmarshal([]byte(rest), &list); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		switch verb {
		case "", "#", "VOLUME":
		case "FROM":
			if rest != "scratch" {
				t.Fatalf("the image begins with %s", rest)
			}
		case "ARG":
			name, value, _ := strings.Cut(rest, "=")
			args[name] = value
		case "COPY":
			copied(t, filepath.Join(context, words[0]), filepath.Join(im.root, words[1]))
		case "ENV":
			im.env = append(im.env, words...)
		case "USER":
			im.user = rest
		case "ENTRYPOINT":
			im.entrypoint = list
		case "CMD":
			im.cmd = list
		default:
			if !strings.HasPrefix(verb, "#") {
				t.Fatalf("the recipe has %q, which this test does not understand", line)
			}
		}
	}
	return im
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(mustReadFile(t, from)), info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

// built is the image as buildah makes it of the recipe, without a daemon and
// without a network.
func built(t *testing.T, buildah, context string) image {
	store := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command(buildah,
			append([]string{"--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs"},
				args...)...)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil {
			t.Fatalf("buildah %s: %v\n%s", strings.Join(args, " "), err, &errs)
		}
		return strings.TrimSpace(out.String())
	}
	run("bud", "--isolation", "chroot", "--platform", "linux/amd64", "-f", mustAbs(t, containerfile), "-t", "gpuboard",
		context)
	var inspected struct {
		OCIv1 struct {
			Config struct {
				Env, Entrypoint, Cmd []string
				User                 string
			}
		}
	}
	if err := json.Unmarshal([]byte(run("inspect", "--type", "image", "gpuboard")), &inspected); err != nil {
		t.Fatal(err)
	}
	config := inspected.OCIv1.Config
	container := run("from", "gpuboard")
	t.Cleanup(func() { run("rm", container) })
	return image{root: run("mount", container), env: config.Env, user: config.User, entrypoint: config.Entrypoint,
		cmd: config.Cmd}
}

// command runs the image as an engine does: nothing but its files, its user,
// process 1 of its own. There is not even /dev or /proc.
func (im image) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	uid, gid, _ := strings.Cut(im.user, ":")
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil || u == 0 {
		t.Fatalf("the user is %q, and an engine can only refuse root when it is a number: %v", im.user, err)
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil || g == 0 {
		t.Fatalf("the group is %q: %v", im.user, err)
	}
	if len(args) == 0 {
		args = im.cmd
	}
	c := exec.Command(im.entrypoint[0], append(slices.Clone(im.entrypoint[1:]), args...)...)
	c.Dir = "/"
	c.Env = append(slices.Clone(im.env), env...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Chroot: im.root, Credential: &syscall.Credential{Uid: uint32(u), Gid: uint32(g)},
		Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	return c
}

// mounts makes what an engine would mount: the three directories.
func (im image) mounts(t *testing.T) {
	t.Helper()
	uid, _ := strconv.Atoi(strings.Split(im.user, ":")[0])
	for _, dir := range []string{"/data", "/data/drop", "/site", "/state"} {
		if err := os.Mkdir(im.root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == "/site" || dir == "/state" {
			if err := os.Chown(im.root+dir, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// list is every file of the image, by name.
func (im image) list(t *testing.T) []string {
	return strings.Fields(mustRun(t, im.root, nil, "find", ".", "-not", "-type", "d"))
}

// container has the image made twice, from the recipe alone and by buildah
// where there is one, and a board made by each.
func container(t *testing.T, dist string) {
	plain := interpreted(t, filepath.Dir(dist))
	// Nothing else is in the image, so the program may need nothing else.
	if out, err := exec.Command("ldd", plain.root+"/usr/bin/gpuboard").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "not a dynamic executable") {
		t.Errorf("ldd: %v\n%s", err, out)
	}
	files := plain.list(t)
	t.Run("interpreted", func(t *testing.T) { plain.makesABoard(t) })
	t.Run("buildah", func(t *testing.T) {
		buildah, err := exec.LookPath("buildah")
		if err != nil {
			t.Skip("buildah is not here; it would build the image of the recipe")
		}
		im := built(t, buildah, filepath.Dir(dist))
		if got := im.list(t); !slices.Equal(got, files) {
			t.Errorf("the image holds %v, and the recipe says %v", got, files)
		}
		if im.user != plain.user || !slices.Equal(im.cmd, plain.cmd) || !slices.Equal(im.entrypoint, plain.entrypoint) {
			t.Errorf("the image is %+v, and the recipe says %+v", im, plain)
		}
		im.makesABoard(t)
	})
}

func (im image) makesABoard(t *testing.T) {
	// Without what has to be mounted it says so, and stops.
	if out, err := im.command(t, nil, "generate").CombinedOutput(); err == nil {
		t.Errorf("it generates without directories:\n%s", out)
	}
	im.mounts(t)
	comments := im.root + "/data/comments.json"
	if err := os.WriteFile(comments,
		[]byte(`{"gpu01": {"0": {"name": "ada", "from": "2026-07-01 00:00", "date": "2099-07-01 18:00"}}}`),
		0o644); err != nil {
		t.Fatal(err)
	}

	// Consul, over TLS, with a certificate that the image's list vouches for.
	var asked atomic.Bool
	consul := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		_, _ = io.WriteString(w, "[]")
	}))
	consul.Config.ErrorLog = log.New(io.Discard, "", 0)
	consul.StartTLS()
	defer consul.Close()
	env := []string{"GPUBOARD_TIMEZONE=Europe/Paris", "GPUBOARD_HOSTS=gpu01"}
	tls := append(slices.Clone(env), "GPUBOARD_CONSUL_ENABLED=true", "CONSUL_HTTP_ADDR="+consul.URL)
	out, _ := im.command(t, tls, "generate").CombinedOutput()
	if asked.Load() || !strings.Contains(string(out), "certificate") {
		t.Errorf("a certificate that nobody vouches for was taken:\n%s", out)
	}
	authorities := im.root + "/etc/ssl/certs/ca-certificates.crt"
	known := mustReadFile(t, authorities)
	if strings.Count(known, "BEGIN CERTIFICATE") < 50 {
		t.Error("the image has no list of certificates worth the name")
	}
	ours := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: consul.Certificate().Raw})
	if err := os.WriteFile(authorities, append([]byte(known), ours...), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := im.command(t, tls, "generate").CombinedOutput(); !asked.Load() {
		t.Errorf("the image's list of certificates is not read:\n%s", out)
	}

	// What it does when nobody says otherwise: it goes on, hears what changes,
	// and stops when told to, although it is process 1.
	c := im.command(t, env)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	defer func() { _ = c.Process.Kill() }()
	until := func(what string) {
		t.Helper()
		deadline := time.Now().Add(need.Patience)
		for !strings.Contains(readable(im.root+"/site/api/v1/bookings.json"), what) {
			if time.Now().After(deadline) {
				t.Fatalf("no booking %s; bookings.json is\n%s", what, readable(im.root+"/site/api/v1/bookings.json"))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	until("2099-07-01T16:00:00Z") // 18:00 in Paris: zones are built in
	if err := os.WriteFile(comments, []byte(`{"gpu01": {"0": {"name": "grace", "date": "2099-01-01 18:00"}}}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	until("2099-01-01T17:00:00Z")
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("told to stop: %v\n%s", err, &stderr)
		}
	case <-time.After(need.Patience):
		t.Error("told to stop, it goes on")
	}
	// History needs no /tmp, and nothing went beside the three directories.
	if _, err := os.Stat(im.root + "/state/history.db"); err != nil {
		t.Error(err)
	}
	top, err := os.ReadDir(im.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range top {
		if !slices.Contains([]string{"data", "etc", "site", "state", "usr"}, entry.Name()) {
			t.Errorf("the root has /%s", entry.Name())
		}
	}
}

// readable is a file that may not be there yet.
func readable(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}
