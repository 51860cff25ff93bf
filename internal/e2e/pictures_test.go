package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"gpuboard/internal/testenv/browser"
)

// TestPictures takes the pictures of docs/ anew, from a demo that runs:
//
//	gpuboard demo --listen 127.0.0.1:8080 &
//	GPUBOARD_PICTURES=http://127.0.0.1:8080/ go test -run TestPictures ./internal/e2e
func TestPictures(t *testing.T) {
	url := os.Getenv("GPUBOARD_PICTURES")
	if url == "" {
		t.Skip("GPUBOARD_PICTURES names no demo to take pictures of")
	}
	b := browser.Start(t, 1240, 1100)
	for _, p := range []struct {
		name, page, scheme string
		width, height      int64
	}{
		{"board-light", "", "light", 1440, 900},
		{"board-dark", "", "dark", 1440, 900},
		{"board-phone", "", "light", 390, 1200},
		{"host", "hosts/atlas/", "light", 1440, 1100},
		{"history", "history/", "light", 1440, 1000},
		{"bookings", "bookings/", "light", 1440, 1100},
	} {
		emulate(t, b, p.scheme, p.width)
		b.Open(url + p.page)
		b.Clip(filepath.Join("docs", p.name+".png"), p.width, p.height)
	}
}
