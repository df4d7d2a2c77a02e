package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestHeadsAreShared: whoever comes and goes, no more is held than may be, nobody has more
// than a part of what others leave, and a client that has nothing gets in while a part of what
// is left is enough.
func TestHeadsAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type holder struct {
			client netip.Addr
			size   int
		}
		h := newHeads()
		h.bound(1 << 20)
		var in []holder
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(in) > 0 && rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
				h.leave(in[0].client, in[0].size)
				in = in[1:]
				continue
			}
			x := holder{netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "client") % 40}), rapid.IntRange(1, 64<<10).Draw(t, "size")}
			own, left := h.of[x.client], h.most-h.all
			ok, full := h.enter(x.client, x.size)
			if ok {
				in = append(in, x)
			}
			if want := x.size <= left && own+x.size <= (left+own)/headPart; ok != want || full && own > 0 {
				t.Fatalf("%d bytes for one who has %d, with %d left: %v, full %v", x.size, own, left, ok, full)
			}
			if h.all > h.most || h.all < 0 {
				t.Fatalf("%d of %d bytes are held", h.all, h.most)
			}
		}
		for _, x := range in {
			h.leave(x.client, x.size)
		}
		if h.all != 0 || len(h.of) != 0 {
			t.Errorf("%d bytes of %d clients are held by nobody", h.all, len(h.of))
		}
	})
}

// TestSizeOf: what most requests have is not counted, and many short lines are as much as a
// few long ones.
func TestSizeOf(t *testing.T) {
	q := request(t, nil, "GET /")
	for i := range 20 {
		q.Header.Set(fmt.Sprint("Field-", i), strings.Repeat("x", 100))
	}
	if got := sizeOf(q, true); got != 0 {
		t.Errorf("an usual header counts %d bytes", got)
	}
	q.Header["Cookie"] = []string{strings.Repeat("x", usualHead)}
	if got := sizeOf(q, false); got < usualHead {
		t.Errorf("a long cookie counts %d bytes", got)
	}
	q.Header = http.Header{"A": make([]string, 1000)}
	if got := sizeOf(q, false); got < 1000*fieldSize {
		t.Errorf("a thousand lines count %d bytes", got)
	}
	q.Header, q.ProtoMajor = http.Header{}, 2
	if none, some := sizeOf(q, false), sizeOf(q, true); none != 0 || some < streamSize {
		t.Errorf("a stream counts %d bytes, one that uploads %d", none, some)
	}
}

// TestHeadsOfSlowUploads has a client begin upload after upload behind a long header: it is
// told that it is too much, others are served, and so is it when its uploads are over.
func TestHeadsOfSlowUploads(t *testing.T) {
	for name, long := range map[string]string{
		"one long field": "Cookie: " + strings.Repeat("x", 20<<10) + "\r\n",
		"many short":     strings.Repeat("a: \r\n", 900),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					_, _ = io.Copy(io.Discard, q.Body)
				}))
				r.handler.BoundHeads(8 << 20)
				var held []io.Closer
				status := 0
				for range 100 {
					c := r.dial()
					send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n"+long+"\r\nx")
					synctest.Wait()
					if r.records() > 0 {
						res := answer(t, bufio.NewReader(c), "POST")
						status = res.StatusCode
						_ = c.Close()
						break
					}
					held = append(held, c)
				}
				if status != http.StatusTooManyRequests || len(held) < 2 {
					t.Errorf("after %d uploads the next one gets %d", len(held), status)
				}
				if line := r.access.All()[0].ContextMap(); line["verdict"] != "refuse" || line["reason"] != "client full" || line["key"] != "192.0.2.1" {
					t.Errorf("access log: %v", line)
				}
				other := newClient(r.front.from("192.0.2.99"), false)
				defer other.CloseIdleConnections()
				ask := func(c *http.Client) int {
					res, _ := r.do(c, request(t, nil, "POST /", "Cookie: "+strings.Repeat("x", 20<<10)))
					return res.StatusCode
				}
				if got := ask(other); got != http.StatusOK {
					t.Errorf("another client gets %d", got)
				}
				for _, c := range held {
					_ = c.Close()
				}
				synctest.Wait()
				if got := ask(r.client); got != http.StatusOK {
					t.Errorf("when its uploads are over the client gets %d", got)
				}
				if h := r.handler.heads; h.all != 0 || len(h.of) != 0 {
					t.Errorf("%d bytes are held by nobody", h.all)
				}
			})
		})
	}
}

// records is how many requests are over.
func (r *rig) records() int { return r.access.Len() }

// TestHeadOfAnUpgrade is not counted while the connection is another protocol's.
func TestHeadOfAnUpgrade(t *testing.T) {
	r := start(t, http.HandlerFunc(shout))
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, strings.Replace(upgrade, "Host: h\r\n", "Host: h\r\nCookie: "+strings.Repeat("x", 20<<10)+"\r\n", 1))
	if res := answer(t, br, "GET"); res.StatusCode != 101 {
		t.Fatalf("got %d", res.StatusCode)
	}
	r.handler.heads.mu.Lock()
	defer r.handler.heads.mu.Unlock()
	if held := r.handler.heads.all; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
