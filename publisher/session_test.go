package publisher

import (
	"context"
	"testing"

	"gpuboard/internal/testenv/sshtest"
)

// TestASessionWhoseTimeEndsWithARequest: the request was answered, and the
// connection ends all the same, so the session does not say that it is usable.
func TestASessionWhoseTimeEndsWithARequest(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := toServer(t, s, s.Port)
	session, err := Dial(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithCancel(context.Background())
	if err := session.request(ctx, "looking at", "it", func(func()) error { cancel(); return nil }); err != nil || session.Usable() {
		t.Errorf("%v, and usable %v", err, session.Usable())
	}
}
