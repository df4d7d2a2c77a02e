package cpuaccount

import (
	"math"
	"strconv"
	"time"
)

// CostHeader is the response header in which a backend reports what a request cost it until the
// header was sent, in CPU-seconds as a decimal number: "0.412".
const CostHeader = "Tempomat-Cost"

// Tell takes what the backend told out of a response's header, which no client
// is to see. With the header source the figure replaces what was measured so
// far; what comes after the header goes on being measured. A figure that is not
// a number, or is more than all CPUs could have done in the time, is ignored.
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
