package cli

import (
	"net"
	"slices"
	"testing"
)

// TestNamesOfTheReceiver: a node that names the web host as localhost, or by an address, finds
// its key in the line that receive prints.
func TestNamesOfTheReceiver(t *testing.T) {
	all := names(&net.TCPAddr{IP: net.IPv4zero, Port: 2222})
	for _, want := range []string{"[localhost]:2222", "[127.0.0.1]:2222"} {
		if !slices.Contains(all, want) {
			t.Errorf("listening everywhere: %q lacks %s", all, want)
		}
	}
	if one := names(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 22}); !slices.Equal(one, []string{"[192.0.2.7]:22"}) {
		t.Errorf("listening on one address: %q", one)
	}
}
