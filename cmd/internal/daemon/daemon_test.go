package daemon

import (
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
)

// TestMetricsBounded: a client that connects to the Prometheus listener again and again can't use more
// descriptors than allowed.
func TestMetricsBounded(t *testing.T) {
	l := ListenMetrics(t.Context(), "127.0.0.1:0", zap.NewNop())
	defer l.Close()
	var accepted []net.Conn
	dial := func() {
		c, err := net.Dial("tcp", l.Addr().String())
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	for range mostScrapers {
		dial()
		c, err := l.Accept()
		testkit.Must(t, err)
		accepted = append(accepted, c)
	}
	dial()
	more := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		more <- c
	}()
	select {
	case c := <-more:
		accepted = append(accepted, c)
		t.Errorf("%d connections are taken", len(accepted))
	case <-time.After(100 * time.Millisecond):
		_ = accepted[0].Close()
		accepted[0] = <-more // because one has ended
	}
	for _, c := range accepted {
		_ = c.Close()
	}
}
