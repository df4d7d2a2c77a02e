package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/limiter"
	"tempomat/proxy/telemetry/telemetrytest"
)

func graphiteOptions() GraphiteOptions {
	l := telemetrytest.NewLedger()
	l.ClassList = append(l.ClassList, limiter.ClassInfo{Name: "X-Tenant.id é"}, limiter.ClassInfo{Name: "held"})
	return GraphiteOptions{
		Address: "graphite:2003", Prefix: "sites.{hostname}", Hostname: "web1.example.com",
		Interval: time.Minute, Threshold: 100 * time.Millisecond,
		Ledger: l, Now: func() time.Time { return time.Unix(1_700_000_000, 5e8) },
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
	if diff := cmp.Diff(graphiteWant, string(NewGraphite(graphiteOptions()).sample())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A key whose wait is exactly the threshold is not over it.
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
		if got := graphitePrefix(prefix, "web1.example.com"); got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}

func TestGraphiteSendsOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := graphiteOptions()
	o.Address, o.Interval = l.Addr().String(), time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { NewGraphite(o).Run(ctx); close(done) }()
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || string(got) != graphiteWant {
			t.Errorf("got %q, %v", got, err)
		}
		_ = c.Close()
	}
	cancel()
	<-done
}

// fakeGraphite refuses connections until it is up, and then passes on the first
// line of each. The tests run it on virtual time.
type fakeGraphite struct {
	start time.Time
	up    time.Duration      // since start
	dials chan time.Duration // since start
	lines chan string
}

func (f *fakeGraphite) dial(context.Context, string, string) (net.Conn, error) {
	f.dials <- time.Since(f.start)
	if time.Since(f.start) < f.up {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	go func() {
		r := bufio.NewReader(far)
		line, _ := r.ReadString('\n')
		_, _ = io.Copy(io.Discard, r)
		f.lines <- line
	}()
	return near, nil
}

func TestGraphiteOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeGraphite{start: time.Now(), up: 170 * time.Second, dials: make(chan time.Duration, 100), lines: make(chan string, 1)}
		core, logged := observer.New(zap.InfoLevel)
		o := graphiteOptions()
		o.Dial, o.Now, o.Log, o.Interval = f.dial, time.Now, zap.New(core), 20*time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { NewGraphite(o).Run(ctx); close(done) }()

		for _, want := range []int{20, 21, 23, 27, 35, 51, 83, 143} { // pauses of 1, 2, 4, …, 32 and then 60 s
			if got := <-f.dials; got != time.Duration(want)*time.Second {
				t.Errorf("attempt at %v, want %d s", got, want)
			}
		}
		// The next attempt is at 203 s. It sends the sample of 200 s and no older.
		wantLine := fmt.Sprintf("sites.web1.example.com.Slash32 2 %d\n", f.start.Add(200*time.Second).Unix())
		if got := <-f.lines; got != wantLine || time.Since(f.start) != 203*time.Second {
			t.Errorf("at %v got %q; want %q", time.Since(f.start), got, wantLine)
		}
		if <-f.lines; time.Since(f.start) != 220*time.Second {
			t.Errorf("the next sample came at %v, want 220 s", time.Since(f.start))
		}
		if logged.Len() != 2 {
			t.Fatalf("%d log lines for one outage, want 2: %v", logged.Len(), logged.All())
		}
		over := logged.All()[1].ContextMap()
		if over["outage"] != 183*time.Second || over["samplesLost"] != int64(9) {
			t.Errorf("got %v", over)
		}
		cancel()
		<-done
	})
}

// A Graphite that accepts and never reads holds Run no longer than the timeout,
// and no longer than Run's context.
func TestGraphiteThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []net.Conn
		o := graphiteOptions()
		o.Interval = time.Hour
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			ends = append(ends, far)
			return near, nil
		}
		g := NewGraphite(o)
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
		if got := time.Since(start); got != 0 {
			t.Errorf("Run ended %v after its context", got)
		}
	})
}
