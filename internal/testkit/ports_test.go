package testkit

import (
	"fmt"
	"net"
	"testing"
)

// TestFreePorts: no other caller gets the ports until the test ends. After that, they are free again.
func TestFreePorts(t *testing.T) {
	given := map[int]bool{}
	t.Run("as many as there are", func(t *testing.T) {
		for range 500 {
			first := FreePorts(t, 2)
			for _, port := range []int{first, first + 1} {
				if given[port] || port < firstPort || port > lastPort {
					t.Errorf("port %d was returned twice, or is outside the range", port)
				}
				if takePorts(t, port, 1) {
					t.Errorf("port %d can be taken by another test", port)
				}
				given[port] = true
			}
		}
		l, err := net.Listen("tcp", FreeAddress(t))
		Must(t, err)
		defer l.Close()
		if isFree(l.Addr().String()) {
			t.Errorf("%s counts as free, although a listener uses it", l.Addr())
		}
	})
	for port := range given {
		l, err := net.Listen("unix", fmt.Sprintf("@tempomat-test-port-%d", port))
		if err != nil {
			t.Errorf("after the test: %v", err)
			continue
		}
		_ = l.Close()
	}
}
