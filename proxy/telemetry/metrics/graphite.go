package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// graphiteTimeout is for one dial and the write after it.
const graphiteTimeout = 10 * time.Second

// GraphiteOptions say what is sent where. All functions must be safe for
// concurrent use.
type GraphiteOptions struct {
	Address   string        // host:port of the plaintext protocol (TCP)
	Prefix    string        // before each series; {hostname} is replaced
	Hostname  string        // what it is replaced with
	Interval  time.Duration // between two samples, above 0
	Threshold time.Duration // keys whose average wait is over it are counted
	Ledger    telemetry.Ledger
	Totals    func() map[string]float64 // further series by name: requests, delayed, refused, …
	Now       func() time.Time
	Log       *zap.Logger
}

// Graphite sends statistics to a Graphite server, one connection for each
// sample: at one sample a minute a kept one would save nothing, and a write into
// a connection that died in the meantime looks like a success. A sample that cannot
// be sent is lost, so that a dead Graphite costs nobody anything.
type Graphite struct {
	o      GraphiteOptions
	prefix string
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lost   int // samples since one was sent
}

// NewGraphite makes a sender; it opens nothing.
func NewGraphite(o GraphiteOptions) *Graphite {
	return &Graphite{o: o, prefix: graphitePrefix(o.Prefix, o.Hostname), dial: new(net.Dialer).DialContext}
}

// Run takes a sample each interval and sends it, until ctx ends. It is meant to
// have a goroutine of its own.
func (g *Graphite) Run(ctx context.Context) {
	tick := time.NewTicker(g.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := g.send(ctx, g.sample()); ctx.Err() == nil {
			g.note(err)
		}
	}
}

// note logs an outage twice, when it begins and when it is over.
func (g *Graphite) note(err error) {
	if err == nil {
		if g.lost > 0 {
			g.o.Log.Info("graphite is reached again", zap.String("address", g.o.Address), zap.Int("samplesLost", g.lost))
		}
		g.lost = 0
		return
	}
	if g.lost++; g.lost == 1 {
		g.o.Log.Warn("graphite can't be reached; samples are lost until it can", zap.String("address", g.o.Address), zap.Error(err))
	}
}

// send writes one sample, in bounded time.
func (g *Graphite) send(ctx context.Context, sample []byte) error {
	ctx, cancel := context.WithTimeout(ctx, graphiteTimeout)
	defer cancel()
	conn, err := g.dial(ctx, "tcp", g.o.Address)
	if err != nil {
		return err
	}
	// Closing ends a write under way, at the timeout and at the end of Run.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = conn.Write(sample)
	if !stop() { // closed already
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, conn.Close())
}

// sample writes the statistics of this moment in Graphite's plaintext protocol:
// one line "series value unixtime" each, classes first, then totals by name.
func (g *Graphite) sample() []byte {
	now := g.o.Now()
	delayed := make(map[string]int)
	g.o.Ledger.Dump(now, "", func(r limiter.Row) bool {
		if r.Wait > g.o.Threshold.Seconds() {
			delayed[r.Class]++
		}
		return true
	})
	totals := g.o.Totals()
	var out []byte
	line := func(series string, value float64) {
		out = append(out, g.prefix...)
		out = append(out, series...)
		out = append(out, ' ')
		out = strconv.AppendFloat(out, value, 'f', -1, 64)
		out = append(out, ' ')
		out = strconv.AppendInt(out, now.Unix(), 10)
		out = append(out, '\n')
	}
	for _, c := range g.o.Ledger.Classes() {
		series := seriesName(c.Name)
		if _, taken := totals[series]; taken { // a class of one's own named "requests"
			series = "class_" + series
		}
		line(series, float64(delayed[c.Name]))
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		if v := totals[name]; !math.IsNaN(v) && !math.IsInf(v, 0) { // Graphite has no number for them
			line(name, v)
		}
	}
	return out
}

// seriesName is the name of a class in statistics: the original's for the usual classes, so its
// users' dashboards still work; otherwise the class's own without characters that have a
// meaning in a series' name.
func seriesName(name string) string {
	if k, _ := classify.KindOf(name); k.Usual {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)
}

// graphitePrefix is what is before each series, its last dot included. The host's name is used
// unchanged, as in the original: the dots of web1.example.com make the tree that its users'
// dashboards expect. Characters that would break the line are replaced.
func graphitePrefix(prefix, hostname string) string {
	p := strings.ReplaceAll(prefix, "{hostname}", hostname)
	p = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, p)
	p = strings.TrimRight(p, ".")
	if p == "" {
		return ""
	}
	return p + "."
}

// statLogRows bounds the lines of one report: the keys of the longest waits.
const statLogRows = 100

// StatLog logs the delayed keys like the original: each minute a line
// Slash32,'203.0.113.9',0.734 for every key whose average wait, in seconds, is over the
// threshold. At most statLogRows of them, and then how many more.
type StatLog struct {
	ledger    telemetry.Ledger
	threshold time.Duration
	now       func() time.Time
	log       *zap.Logger
}

// NewStatLog makes a StatLog that writes to the logger "stats" of log.
func NewStatLog(ledger telemetry.Ledger, threshold time.Duration, now func() time.Time, log *zap.Logger) *StatLog {
	return &StatLog{ledger: ledger, threshold: threshold, now: now, log: log.Named("stats")}
}

// Run reports each minute until ctx ends.
func (s *StatLog) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Report()
		}
	}
}

// Report logs the keys that are delayed at this moment, longest wait first.
func (s *StatLog) Report() {
	top := telemetry.TopRows{Limit: statLogRows, Order: telemetry.Orders()["wait"]}
	s.ledger.Dump(s.now(), "", func(r limiter.Row) bool {
		if r.Wait > s.threshold.Seconds() {
			top.Offer(r)
		}
		return true
	})
	rows := top.Sorted()
	for _, r := range rows {
		s.log.Info(statLine(r))
	}
	if more := top.Seen - len(rows); more > 0 {
		s.log.Info(fmt.Sprintf("and %d more keys with an average wait over %v", more, s.threshold))
	}
}

// statLine is a row in the original's form.
func statLine(r limiter.Row) string {
	return seriesName(r.Class) + "," + quoteTitle(r.ID) + "," + strconv.FormatFloat(r.Wait, 'f', 3, 64)
}

// quoteTitle puts a key between single quotes. Clients choose what is in it:
// quotes, backslashes and whatever is not printable are escaped as in Go, so
// that no key can end the line or pretend to be two.
func quoteTitle(title string) string {
	q := strconv.Quote(title)
	q = strings.NewReplacer(`\\`, `\\`, `\"`, `"`, `'`, `\'`).Replace(q[1 : len(q)-1])
	return "'" + q + "'"
}
