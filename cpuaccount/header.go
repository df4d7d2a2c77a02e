package cpuaccount

import (
	"math"
	"strconv"
	"time"
)

// CostHeader is the response header in which a backend reports the cost of a request until the headers were sent, in
// CPU-seconds as a decimal number such as "0.412".
const CostHeader = "Tempomat-Cost"

// Tell removes CostHeader from a response, because clients must not see it. With the header source, the reported
// cost replaces the estimate for the time until the headers. Later time is estimated as usual. A value is ignored
// if it isn't a number, or if it is higher than the CPU time of all CPUs in that time.
func (s *Span) Tell(now time.Time, h interface {
	Values(name string) []string
	Del(name string)
}) {
	told := h.Values(CostHeader)
	if told == nil {
		return
	}
	h.Del(CostHeader)
	if s.meter.source != Header || len(told) != 1 {
		return
	}
	x, err := strconv.ParseFloat(told[0], 64)
	if err != nil || math.IsNaN(x) || x < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || x > now.Sub(s.began).Seconds()*s.meter.cpus {
		return
	}
	s.advanceLocked(now)
	cpu := time.Duration(x * float64(time.Second))
	s.meter.charged.Add(int64(cpu - s.cpu))
	s.cpu, s.told, s.idle = cpu, cpu, max(0, now.Sub(s.began)-cpu)
}
