package s3test

import (
	"bytes"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"gpuboard/internal/testenv/need"
)

// program returns the S3 gateway to run: GPUBOARD_S3GATEWAY when that is set, else the one that
// tools/s3gateway/build.sh builds, once. Where not all tests must run, it is not built here.
func program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("GPUBOARD_S3GATEWAY"); path != "" {
		return path
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for root != "/" && !exists(filepath.Join(root, "tools")) {
		root = filepath.Dir(root)
	}
	if built, _ := filepath.Glob(filepath.Join(root, ".cache", "versitygw-[0-9]*")); len(built) == 0 && !need.All() {
		t.Skip("needs an S3 gateway: set GPUBOARD_S3GATEWAY to one, or run tools/s3gateway/build.sh once")
	}
	build := exec.Command(filepath.Join(root, "tools", "s3gateway", "build.sh"))
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		t.Fatalf("building the S3 gateway: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Gateway starts a gateway whose bucket everybody may read, sets the environment by which it is found, and returns its
// address. Objects are files below dir.
func Gateway(t *testing.T, bucket string) (address, dir string) {
	t.Helper()
	need.Time(t, "it starts an S3 gateway")
	path := program(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := listener.Addr().String()
	listener.Close()
	dir = t.TempDir()
	for _, sub := range []string{"objects", "objects/" + bucket, "meta"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	server := exec.Command(path, "--port", listen, "--access", "test", "--secret", "testtest", "--region", "us-east-1",
		"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "objects"))
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	address = "http://" + listen
	for end := time.Now().Add(need.Patience); ; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get(address)
		if err == nil {
			answer.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the gateway does not answer: %v", err)
		}
	}
	environment(t, address, "testtest")
	return address, filepath.Join(dir, "objects", bucket)
}

// environment says where the store is.
func environment(t *testing.T, address, secret string) {
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": secret,
		"AWS_REGION": "us-east-1",
	} {
		t.Setenv(name, value)
	}
}

// Publish lets everybody read the objects of a bucket.
func Publish(t *testing.T, bucket string) {
	t.Helper()
	at, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + bucket + `/*"}]}`
	if err := client.SetBucketPolicy(t.Context(), bucket, policy); err != nil {
		t.Fatal(err)
	}
}
