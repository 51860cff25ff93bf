package watch

import (
	"errors"
	"gpuboard/internal/notify"
	"testing"
)

func TestTroublesOfTheOutboxHaveACode(t *testing.T) {
	problems := problemsOf([]notify.State{{Err: errors.New("it cannot be read")}, {Hook: "chat", Refused: true, Err: errors.New("404")}})
	if len(problems) != 2 || problems[0].Code != "notify:outbox" || problems[1].Code != "notify:failing" {
		t.Errorf("%+v", problems)
	}
}
