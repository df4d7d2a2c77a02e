package history

import (
	"math"
	"time"
)

const (
	// perDouble is how many steps there are until a time doubles: 19 % from one to the next.
	perDouble = 4
	// steps go from less than a millisecond to 17 minutes and more.
	steps = 20*perDouble + 2
)

// took is how many requests took how long.
type took [steps]float64

func (t *took) add(d time.Duration, requests float64) {
	ms := float64(d) / float64(time.Millisecond)
	i := 0
	if ms >= 1 {
		i = min(1+int(perDouble*math.Log2(ms)), steps-1)
	}
	t[i] += requests
}

// p95 is the time in seconds that 95 of 100 requests took at most, give or take 9 %; 0 if
// there were none.
func (t *took) p95() float64 {
	sum := 0.0
	for _, n := range t {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	left := 0.95 * sum
	for i, n := range t {
		if left -= n; left <= 0 {
			return math.Exp2((float64(i)-0.5)/perDouble) / 1000
		}
	}
	return math.Exp2((steps-1)/float64(perDouble)) / 1000
}
