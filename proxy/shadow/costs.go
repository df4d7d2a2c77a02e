package shadow

import (
	"strings"
	"time"
)

// costs is what pages use while the backend is not crowded.
//
// Where more requests are at the backend than it has workers, some of them wait, and it
// cannot be seen which. Where the backend tells what each used, or its workers are measured, that
// does not matter. Else what they are taken to have used is right in sum only, and a style sheet
// seems to have used as much as the dear page that it waited with. So what is known of its like is
// taken, or what was seen of its shape at other times, and what remains of the sum is for those of which
// little was seen.
type costs struct {
	shapes map[string]*pageCost
	served served
	// The following are of those that were crowded lately, in CPU-seconds.
	used   float64 // in truth
	sure   float64 // of those of known shapes
	unsure float64 // of the others, before they were scaled

	likes likes
}

// pageCost is what requests of a shape use, in seconds.
type pageCost struct {
	n        int     // that were not crowded
	mean     float64 // of these
	idle     float64 // of these
	crowded  int
	reckoned float64 // what crowded ones are taken to use, on average
}

const (
	shapesKept = 4096
	fewPages   = 3   // from so many on the mean of a shape is better than nothing
	sureFrom   = 100 // and from so many on it is believed: in the first of a crowd are the cheap ones
	longMean   = 64  // it is of about so many pages
	recent     = 256
	fade       = 1 - 1.0/recent
)

// of is what a request uses, and for how long it holds a worker beside that, if it was seen
// in a crowd, or by itself.
func (c *costs) of(s *seen, crowded bool) (used, idle time.Duration) {
	p := c.page(s.who.Shape)
	x := s.asks.Seconds()
	if s.cut { // its client would have stayed, had it been served
		return max(s.asks, c.likes.likely(s)), min(s.idle, seconds(p.idle))
	}
	if s.exact {
		c.likes.learn(s)
	}
	if !crowded {
		p.n++
		part := 1 / float64(min(p.n, longMean))
		p.mean += (x - p.mean) * part
		p.idle += (s.idle.Seconds() - p.idle) * part
		return s.asks, s.idle
	}
	idle = min(s.idle, seconds(p.idle)) // to wait for a worker is not to hold one
	if s.exact {
		p.crowded++
		p.reckoned += (x - p.reckoned) / float64(min(p.crowded, longMean))
		return s.asks, idle
	}
	if x, ok := c.likes.mean(s); ok {
		return x, idle
	}
	mean, ok := c.served.mean(s)
	if !ok {
		mean = x
	}
	return c.inCrowd(p, x, mean), idle
}

// inCrowd is what a request uses that seems to have used x, where those that were served
// at that time used so much on average.
func (c *costs) inCrowd(p *pageCost, x, mean float64) time.Duration {
	c.used, c.sure, c.unsure = c.used*fade+mean, c.sure*fade, c.unsure*fade
	if p.n >= sureFrom {
		c.sure += p.mean
		return seconds(p.mean)
	}
	if p.n >= fewPages {
		x = p.mean
	}
	c.unsure += x
	x *= c.scale(p)
	p.crowded++
	p.reckoned += (x - p.reckoned) / float64(min(p.crowded, longMean))
	return seconds(x)
}

// unserved is what a request would use that did not come to the backend, and that a sidecar guessed
// to use so much which may have been in a crowd.
func (c *costs) unserved(s *seen) time.Duration {
	if x, ok := c.likes.mean(s); ok {
		return x
	}
	switch p := c.shapes[s.who.Shape]; {
	case p == nil:
	case p.n >= sureFrom || p.crowded == 0 && p.n >= fewPages:
		return seconds(p.mean)
	case p.crowded > 0:
		return seconds(p.reckoned)
	}
	return s.asks
}

// scale is by how much more than the mean of its shape a request seems to use.
func (c *costs) scale(p *pageCost) float64 {
	if p.n >= sureFrom || c.unsure <= 0 {
		return 1
	}
	return max(0.5, min((c.used-c.sure)/c.unsure, 2))
}

// page is that of a shape. Shapes that anybody makes up push out no well-known ones.
func (c *costs) page(shape string) *pageCost {
	if c.shapes == nil {
		c.shapes = make(map[string]*pageCost)
	}
	p := c.shapes[shape]
	if p != nil {
		return p
	}
	if len(c.shapes) >= shapesKept {
		looked := 0
		for name, other := range c.shapes { // from anywhere
			if looked++; other.n < sureFrom || looked == 8 {
				delete(c.shapes, name)
				break
			}
		}
	}
	p = new(pageCost)
	c.shapes[strings.Clone(shape)] = p
	return p
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
