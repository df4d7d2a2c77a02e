package testkit

import (
	"fmt"
	"net"
	"testing"
)

// TestFreePorts: nobody else is given them before the test ends, and then somebody may be.
func TestFreePorts(t *testing.T) {
	given := map[int]bool{}
	t.Run("as many as there are", func(t *testing.T) {
		for range 500 {
			first := FreePorts(t, 2)
			for _, port := range []int{first, first + 1} {
				if given[port] || port < firstPort || port > lastPort {
					t.Errorf("port %d is given twice, or is none of ours", port)
				}
				if takePorts(t, port, 1) {
					t.Errorf("port %d is another's, too", port)
				}
				given[port] = true
			}
		}
		l, err := net.Listen("tcp", FreeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if isFree(l.Addr().String()) {
			t.Errorf("%s is free though somebody listens", l.Addr())
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
