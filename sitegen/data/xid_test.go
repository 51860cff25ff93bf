package data

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/text"
)

// TestXIDForPrograms: the last error of a GPU is in the host's file, comes back
// from it, and is in the detailed text.
func TestXIDForPrograms(t *testing.T) {
	in := boardtest.Lab()
	host := &in.Board.Hosts[0]
	host.GPUs[1].XID = &snapshot.XID{Code: 31, At: snapshot.TimeOf(boardtest.Now)}
	file := apiData(t, in)["api/v1/hosts/"+host.Name+".json"]
	var read struct {
		GPUs []struct {
			XID *struct {
				Code        int
				At, Meaning string
			}
		}
	}
	if err := json.Unmarshal(file, &read); err != nil {
		t.Fatal(err)
	}
	x := read.GPUs[1].XID
	if read.GPUs[0].XID != nil || x == nil || x.Code != 31 ||
		x.At != boardtest.Now.UTC().Format("2006-01-02T15:04:05Z") ||
		!strings.Contains(x.Meaning, "a program") {
		t.Errorf("%+v, %+v", read.GPUs[0].XID, x)
	}
	if !bytes.Contains(file, []byte(`"xid":null`)) {
		t.Error("no error is not null")
	}
	back, _, err := ReadHost(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := back.GPUs[1].XID; got == nil || got.Code != 31 || !got.At.Equal(boardtest.Now) {
		t.Errorf("%+v comes back", got)
	}
	detail := statusText(t, in.Board, text.Options{Detail: true, Width: 200})
	if !strings.Contains(detail, "xid 31, ") || strings.Count(detail, "xid ") != 1 {
		t.Error("the detailed text does not say it once")
	}
}
