package shadow

import (
	"math"
	"time"
)

// noticed is the delay from which on a request counts as delayed, as in the access log.
const noticed = 100 * time.Millisecond

const (
	waitSteps  = 100 // up to 23 minutes
	waitGrowth = 1.1
)

// waits is how many requests waited how long, in steps of a tenth. It grows as need be.
type waits []uint32

func (w *waits) add(d time.Duration) {
	i := int(math.Log(d.Seconds()/noticed.Seconds()) / math.Log(waitGrowth))
	i = max(0, min(i, waitSteps-1))
	for len(*w) <= i {
		*w = append(*w, 0)
	}
	(*w)[i]++
}

// merge adds those of another one.
func (w *waits) merge(o waits) {
	for len(*w) < min(len(o), waitSteps) {
		*w = append(*w, 0)
	}
	for i := range *w {
		if i < len(o) {
			(*w)[i] += o[i]
		}
	}
}

// quantile is in seconds, give or take a twentieth; 0 if there are none.
func (w waits) quantile(q float64) float64 {
	n := 0.0
	for _, x := range w {
		n += float64(x)
	}
	left := q * n
	for i, x := range w {
		if left -= float64(x); left < 0 || x > 0 && left == 0 {
			return noticed.Seconds() * math.Pow(waitGrowth, float64(i)+0.5)
		}
	}
	return 0
}
