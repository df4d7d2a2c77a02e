package metrics

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/telemetry/telemetrytest"
)

func graphiteOptions() GraphiteOptions {
	l := telemetrytest.NewLedger()
	l.ClassList = append(l.ClassList, limiter.ClassInfo{Name: "X-Tenant.id é"}, limiter.ClassInfo{Name: "held"})
	return GraphiteOptions{
		Address: "graphite:2003", Prefix: "sites.{hostname}", Hostname: "web1.example.com",
		Interval: time.Minute, Threshold: 100 * time.Millisecond,
		Ledger: l, Now: func() time.Time { return time.Unix(1_700_000_000, 5e8) }, Log: zap.NewNop(),
		Totals: func() map[string]float64 {
			return map[string]float64{"requests": 12, "costSeconds": 0.25, "held": 3, "broken": math.NaN()}
		},
	}
}

const graphiteWant = `sites.web1.example.com.Slash32 2 1700000000
sites.web1.example.com.UserAgent 1 1700000000
sites.web1.example.com.X-Tenant_id__ 0 1700000000
sites.web1.example.com.class_held 0 1700000000
sites.web1.example.com.costSeconds 0.25 1700000000
sites.web1.example.com.held 3 1700000000
sites.web1.example.com.requests 12 1700000000
`

func TestGraphiteSample(t *testing.T) {
	testkit.Same(t, graphiteWant, string(NewGraphite(graphiteOptions()).sample()), "the sample")
}

// TestGraphiteThresholdIsExclusive: a key whose wait is exactly the threshold doesn't count as delayed.
func TestGraphiteThresholdIsExclusive(t *testing.T) {
	o := graphiteOptions()
	o.Threshold = 1500 * time.Millisecond
	if got, want := string(NewGraphite(o).sample()), "Slash32 0 "; !strings.Contains(got, want) {
		t.Errorf("no %q in:\n%s", want, got)
	}
}

func TestGraphitePrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                    "",
		"a.b":                 "a.b.",
		"a.b.":                "a.b.",
		"a.{hostname}.z":      "a.web1.example.com.z.",
		"{hostname}":          "web1.example.com.",
		"a b\n{hostname}\x00": "a_b_web1.example.com_.",
	} {
		testkit.Same(t, want, graphitePrefix(prefix, "web1.example.com"), "%q", prefix)
	}
}

func TestGraphiteSendsOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l := testkit.Listen(t)
	o := graphiteOptions()
	o.Address, o.Interval = l.Addr().String(), time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { NewGraphite(o).Run(ctx); close(done) }()
	for range 2 {
		c, err := l.Accept()
		testkit.Must(t, err)
		got, err := io.ReadAll(c)
		if err != nil || string(got) != graphiteWant {
			t.Errorf("got %q, %v", got, err)
		}
		_ = c.Close()
	}
	cancel()
	<-done
}

// TestGraphiteOutage: one line is logged when an outage begins, and one when it ends. Samples in between are
// lost.
func TestGraphiteOutage(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	o := graphiteOptions()
	o.Log = zap.New(core)
	g := NewGraphite(o)
	for _, err := range []error{nil, errors.New("refused"), errors.New("refused"), nil, nil} {
		g.note(err)
	}
	if all := logged.All(); len(all) != 2 || all[0].Level != zap.WarnLevel || all[1].ContextMap()["samplesLost"] != int64(2) {
		t.Errorf("%v", all)
	}
}

// TestGraphiteThatNeverReads: a Graphite server that accepts and never reads delays Run by no more than the
// timeout, and not after the end of Run's context.
func TestGraphiteThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []net.Conn
		o := graphiteOptions()
		o.Interval = time.Hour
		g := NewGraphite(o)
		g.dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			ends = append(ends, far)
			return near, nil
		}
		start := time.Now()
		if err := g.send(t.Context(), []byte("x")); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != graphiteTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { g.Run(ctx); close(done) }()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if len(ends) != 2 {
			t.Fatalf("%d connections, want 2", len(ends))
		}
		start = time.Now()
		cancel()
		<-done
		testkit.Same(t, 0, time.Since(start), "Run ended after its context by")
	})
}
