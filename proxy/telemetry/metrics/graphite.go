package metrics

import (
	"context"
	"errors"
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

// graphiteTimeout is the longest time to connect and send a sample.
const graphiteTimeout = 10 * time.Second

// GraphiteOptions say which series to send, and where. Another goroutine calls the functions in them.
type GraphiteOptions struct {
	Address   string        // host:port of the plaintext protocol (TCP)
	Prefix    string        // prefix of each series; {hostname} stands for Hostname
	Hostname  string        // value for {hostname} in Prefix
	Interval  time.Duration // pause between two samples, above 0
	Threshold time.Duration // a key counts as delayed if its average wait is longer
	Ledger    telemetry.Ledger
	Totals    func() map[string]float64 // further series by name: requests, delayed, refused, …
	Now       func() time.Time
	Log       *zap.Logger
}

// Graphite sends samples of all metrics to a Graphite server. It opens a connection for each sample, because a
// write to a broken connection may look like a success. A sample that can't be sent is lost.
type Graphite struct {
	o      GraphiteOptions
	prefix string
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lost   int // number of samples lost since the last one that was sent
}

// NewGraphite makes a Graphite. It doesn't connect before Run.
func NewGraphite(o GraphiteOptions) *Graphite {
	return &Graphite{o: o, prefix: graphitePrefix(o.Prefix, o.Hostname), dial: new(net.Dialer).DialContext}
}

// Run sends a sample each interval until ctx ends.
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

// note logs the beginning and the end of an outage.
func (g *Graphite) note(err error) {
	if err == nil {
		if g.lost > 0 {
			g.o.Log.Info("Graphite can be reached again", zap.String("address", g.o.Address), zap.Int("samplesLost", g.lost))
		}
		g.lost = 0
		return
	}
	if g.lost++; g.lost == 1 {
		g.o.Log.Warn("can't reach Graphite; samples are lost until it can be reached again", zap.String("address", g.o.Address), zap.Error(err))
	}
}

// send sends a sample, in at most graphiteTimeout.
func (g *Graphite) send(ctx context.Context, sample []byte) error {
	ctx, cancel := context.WithTimeout(ctx, graphiteTimeout)
	defer cancel()
	conn, err := g.dial(ctx, "tcp", g.o.Address)
	if err != nil {
		return err
	}
	// Closing the connection ends a blocked write, at the timeout and when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = conn.Write(sample)
	if !stop() { // the connection was closed at the timeout, or because ctx ended
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, conn.Close())
}

// sample returns the metrics as of now in Graphite's plaintext protocol, a line "series value unixtime"
// for each: the classes first, then the totals by name.
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
		if _, taken := totals[series]; taken { // a configured class has the name of a total, such as "requests"
			series = "class_" + series
		}
		line(series, float64(delayed[c.Name]))
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		if v := totals[name]; !math.IsNaN(v) && !math.IsInf(v, 0) { // Graphite can't store these
			line(name, v)
		}
	}
	return out
}

// seriesName returns the name of a class's series. The usual classes keep the names that the original program
// used, so that existing dashboards still work. In other names, characters with a meaning in Graphite are
// replaced.
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

// graphitePrefix returns the prefix of each series, with a dot at its end. Dots in the host's name stay, so
// that the name becomes several levels of Graphite's tree. The original program did the same, and existing
// dashboards rely on this. Characters that would break the line are replaced.
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
