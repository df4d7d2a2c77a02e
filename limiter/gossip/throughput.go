package gossip

import "time"

// throughputOver is about how long throughput is taken over.
const throughputOver = 5 * time.Second

// throughput is the bytes that come and go in a second, of late.
type throughput struct {
	from, to time.Time
	first    Counts
	last     Counts
	mid      Counts
	midAt    time.Time
}

// sample is told the counts now and then.
func (f *throughput) sample(now time.Time, c Counts) {
	if f.from.IsZero() {
		f.from, f.first, f.midAt, f.mid = now, c, now, c
	}
	if f.to, f.last = now, c; now.Sub(f.midAt) >= throughputOver/2 {
		f.from, f.first, f.midAt, f.mid = f.midAt, f.mid, now, c
	}
}

func (f *throughput) perSecond() (sent, received float64) {
	over := f.to.Sub(f.from).Seconds()
	if over <= 0 {
		return 0, 0
	}
	return float64(f.last.Sent-f.first.Sent) / over, float64(f.last.Received-f.first.Received) / over
}
