package host

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tempomat/cpuaccount/process"
)

// Each message from a worker is one of these bytes, followed by the request's number.
const (
	saysBegins = '+'
	saysEnds   = '-'
)

// These constants limit how many messages are read per second, and how many more in a burst. Further messages
// wait in the kernel, which has room for a few hundred. When its buffer is full, sending fails.
const (
	messagesRate  = 4000
	messagesBurst = 2000
)

// note handles a message from a process.
func (c *claims) note(now time.Time, numbers *Numbers, pid int, text []byte) bool {
	if len(text) < 1 || pid <= 0 {
		return false
	}
	n := numbers.read(text[1:])
	if n == 0 || text[0] != saysBegins && text[0] != saysEnds {
		return false
	}
	id, u, err := c.opened.look(now, pid)
	if err != nil {
		return false
	}
	if text[0] == saysEnds {
		c.ends(id, u, n)
		return true
	}
	return c.begins(now, id, u, n)
}

// pause waits for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Number identifies a request at the backend; 0: the request has none.
type Number uint64

// Numbers gives requests their numbers. Each number is encrypted as one block, so no other program
// can invent a valid one. Its methods may be called concurrently.
type Numbers struct {
	block cipher.Block
	last  atomic.Uint64
}

// newNumbers makes a Numbers with its own secret key.
func newNumbers() *Numbers {
	var key [16]byte
	rand.Read(key[:]) // it never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // it never fails for a key of 16 bytes
	}
	return &Numbers{block: block}
}

// numberLength is the length of a number as text.
const numberLength = 2 * aes.BlockSize

// Next returns the next number, and the same number as text: 32 hexadecimal digits.
func (n *Numbers) Next() (Number, string) {
	x := n.last.Add(1)
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], x)
	n.block.Encrypt(b[:], b[:])
	var text [numberLength]byte
	hex.Encode(text[:], b[:])
	return Number(x), string(text[:])
}

// read parses a number's text; 0: it is invalid.
func (n *Numbers) read(text []byte) Number {
	var b [aes.BlockSize]byte
	if len(text) != numberLength {
		return 0
	}
	if _, err := hex.Decode(b[:], text); err != nil {
		return 0
	}
	n.block.Decrypt(b[:], b[:])
	if binary.BigEndian.Uint64(b[8:]) != 0 {
		return 0
	}
	return Number(binary.BigEndian.Uint64(b[:]))
}

// claim is a process's report that it serves a request.
type claim struct {
	of     *claims
	id     process.ID
	number Number
	at     time.Time // time of the report
	base   process.Usage
	crowds time.Time // time until which the process counts as serving several requests at once

	// claims.mu guards the fields below.
	rest    *process.Usage // CPU use when the process reported the end of the request, or began another one
	gone    bool           // whether the process has begun another request
	another bool           // whether, according to its reports, the process serves other requests at the same time
}

// used returns how much CPU time the process has used for the request; read reads the process's current total.
// The request also pays for the CPU time between its reported end and the process's next request, because PHP
// reports the end before the site's own shutdown functions run.
func (c *claim) used(read func() (process.Usage, error)) (process.Usage, error) {
	c.of.mu.Lock()
	rest, gone := c.rest, c.gone
	c.of.mu.Unlock()
	if gone {
		return *rest, nil
	}
	u, err := read()
	switch {
	case rest == nil:
		return u, err
	case err != nil || u.CPU-rest.CPU <= between:
		return *rest, nil
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.gone {
		c.rest = &u
	}
	return *c.rest, nil
}

// serves reports whether the process, according to its reports, serves this request and no other.
func (c *claim) serves() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return !c.another
}

// mostClaims is how many processes' reports are kept. The oldest report is dropped first.
const mostClaims = 4096

// forgets is how long a process counts as serving several requests at once, after it has reported the beginning
// of one before the end of another. The time is limited, because the report of the end may simply have been
// lost.
const forgets = 10 * time.Second

// claims keeps the last report from each process, and for each request the process that reported it
// first. Its methods may be called concurrently.
type claims struct {
	opened *opened

	mu       sync.Mutex                  // guards the fields below
	byPID    *simplelru.LRU[int, *claim] // last report from each process
	byNumber map[Number]*claim
}

func newClaims() *claims {
	c := &claims{opened: newOpened(), byNumber: map[Number]*claim{}}
	c.byPID, _ = simplelru.NewLRU(mostClaims, func(_ int, x *claim) { delete(c.byNumber, x.number) }) // only a size of 0 is an error
	return c
}

// begins handles a process's report that it now serves a request. It returns false if another process has
// already reported the same request.
func (c *claims) begins(now time.Time, id process.ID, u process.Usage, n Number) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.byNumber[n]; taken {
		return false
	}
	x := &claim{of: c, id: id, number: n, at: now, base: u}
	if old, _ := c.byPID.Peek(id.PID); old != nil && old.id == id {
		if x.crowds = old.crowds; old.rest == nil && now.Sub(old.at) <= forgets {
			x.crowds = now.Add(forgets)
		}
		x.another = now.Before(x.crowds)
		x.base = old.goneOnLocked(u, x.another)
	}
	c.byPID.Remove(id.PID) // removes the process's last report, or one from an earlier process with the same number
	c.byPID.Add(id.PID, x)
	c.byNumber[n] = x
	return true
}

// between limits how much CPU time before a report is charged to the reported request. Its worker used that
// time to accept the request. If the worker has used more since its last request, it has served another client
// in between.
const between = 10 * time.Millisecond

// goneOnLocked notes that the process has begun another request, perhaps in addition to others. It returns
// what the process had used before that request.
func (c *claim) goneOnLocked(now process.Usage, others bool) (base process.Usage) {
	c.gone = true
	if c.rest == nil {
		c.rest, c.another = &now, c.another || others
		return now
	}
	if now.CPU-c.rest.CPU > between {
		return now
	}
	return process.Usage{CPU: c.rest.CPU, Queued: now.Queued}
}

// ends handles a process's report that it has served a request.
func (c *claims) ends(id process.ID, u process.Usage, n Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, _ := c.byPID.Peek(id.PID); x != nil && x.id == id && x.number == n && x.rest == nil {
		x.rest = &u
	}
}

// of returns the report about a request, or nil if there is none.
func (c *claims) of(n Number) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNumber[n]
}
