package sim

import (
	"net/http"
	"strings"

	"tempomat/classify/newcomer"
)

// visit is what a client goes through for one page: a request, and another one if
// it follows a redirect.
type visit struct {
	*World
	client   *Client
	request  *request // the last one
	answered bool     // its answer has begun
	ended    bool
	then     func(ok bool)
}

// ask sends a request for a page and calls then when the answer was read, or the
// client left. The latency is until the answer begins.
func (w *World) ask(c *Client, page Page, then func(ok bool)) *visit {
	v := &visit{World: w, client: c, then: then}
	r := c.request(w, page)
	w.after(c.Timeout, func() {
		if !v.answered {
			v.leave()
		}
	})
	if c.HangsUp > 0 {
		w.after(c.HangsUp, v.leave)
	}
	v.send(r)
	return v
}

func (v *visit) send(r *request) {
	v.request = r
	r.answer = v.take
	r.over = func() {
		if r.page.Stream > 0 && v.answered {
			v.end(true)
		}
	}
	v.proxy.arrive(r)
	if n := len(v.proxy.waiting); v.now >= v.from {
		v.held = max(v.held, n)
	}
}

// take takes an answer that begins.
func (v *visit) take(status int, h http.Header) {
	if v.ended {
		return
	}
	v.client.keep(h)
	r := v.request
	if status == http.StatusFound && v.client.Follows > 0 {
		v.after(v.client.Follows, func() {
			if !v.ended {
				v.send(v.client.follow(v.World, r))
			}
		})
		return
	}
	v.answered = true
	v.note(r, status == http.StatusOK)
	if reading := r.takes(r.page.Answer); status != http.StatusOK {
		v.end(false)
	} else if reading > 0 {
		v.after(reading, func() { v.end(true) })
	} else if r.page.Stream == 0 {
		v.end(true)
	}
}

// leave is what a client does that has lost its patience.
func (v *visit) leave() {
	if v.ended {
		return
	}
	v.proxy.leave(v.request)
	if !v.answered {
		v.note(v.request, false)
	}
	v.end(false)
}

// abort is what a client does that has no use for the answer any more.
func (v *visit) abort() {
	v.answered = true // not for it
	v.leave()
}

func (v *visit) end(ok bool) {
	if !v.ended {
		v.ended = true
		v.proxy.spool.drop(v.request)
		v.then(ok)
	}
}

// keep takes the cookies that a client keeps.
func (c *Client) keep(h http.Header) {
	for _, line := range h["Set-Cookie"] {
		given, _, _ := strings.Cut(line, ";")
		switch {
		case strings.HasPrefix(given, newcomer.CookieName+"="):
			if c.Follows > 0 {
				c.pass = given
			}
		case c.Browser:
			c.cookie = given
		}
	}
}
