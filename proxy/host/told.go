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

	"tempomat/cpuaccount/process"
)

// What a worker sends: one of these, then the number of the request.
const (
	saysBegins = '+'
	saysEnds   = '-'
)

// How many messages are looked at: so many in a second, and so many more at once. Beyond
// that they wait where the kernel has room for some hundred, and then the sender is told
// that there is none.
const (
	messagesRate  = 4000
	messagesBurst = 2000
)

// note takes in a message of a process.
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

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Number is that of a request that is at the backend. 0: it has none.
type Number uint64

// Numbers gives requests their numbers, and encrypts each as one block, so no other program can
// make one up. Its methods may be called concurrently.
type Numbers struct {
	block cipher.Block
	last  atomic.Uint64
}

// newNumbers makes one with a secret of its own.
func newNumbers() *Numbers {
	var key [16]byte
	rand.Read(key[:]) // it never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // a key of 16 bytes is one
	}
	return &Numbers{block: block}
}

// numberLength is how long a written number is.
const numberLength = 2 * aes.BlockSize

// Next gives a number, and its writing: 32 hexadecimal digits.
func (n *Numbers) Next() (Number, string) {
	x := n.last.Add(1)
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], x)
	n.block.Encrypt(b[:], b[:])
	var text [numberLength]byte
	hex.Encode(text[:], b[:])
	return Number(x), string(text[:])
}

// read returns the number that was written so; 0: none was.
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

// claim is that a process says it serves a request.
type claim struct {
	of     *claims
	id     process.ID
	number Number
	at     time.Time // when it said that
	base   process.Usage
	crowds time.Time // until when it is taken to serve several at once, as it did before

	// guarded by claims.mu:
	rest    *process.Usage // its use when it reported that it had served it, or when it went on to another one
	gone    bool           // it went on to another one
	another bool           // it serves others at the same time, as far as it says
}

// used is what the process has used for the request, which read reads. Until it goes on to another one, what it
// uses after it said that it is done is this one's as well: PHP says so before the site's own
// functions for the end of a page.
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

// serves reports whether the process serves nothing else, as far as it says.
func (c *claim) serves() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return !c.another
}

// mostClaims is of how many processes what they say is kept.
const mostClaims = 4096

// forgets is for how long a process is taken to serve several requests that began another one before the end of
// the last, and after which that end is no longer awaited: it may have found no room.
const forgets = 10 * time.Second

// claims is what processes say, of each the last thing only, and of each request who said
// it first. Its methods may be called concurrently.
type claims struct {
	opened *opened

	mu       sync.Mutex     // guards the following
	byPID    map[int]*claim // the last one of a process
	byNumber map[Number]*claim
}

func newClaims() *claims {
	return &claims{opened: newOpened(), byPID: map[int]*claim{}, byNumber: map[Number]*claim{}}
}

// begins takes in that a process says it serves a request from now on. It returns false if
// another one said so before, or there is no room.
func (c *claims) begins(now time.Time, id process.ID, u process.Usage, n Number) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.byNumber[n]; taken {
		return false
	}
	old, hasRoom := c.lastLocked(now, id)
	if !hasRoom {
		return false
	}
	x := &claim{of: c, id: id, number: n, at: now, base: u}
	if old != nil {
		if x.crowds = old.crowds; old.rest == nil && now.Sub(old.at) <= forgets {
			x.crowds = now.Add(forgets)
		}
		x.another = now.Before(x.crowds)
		x.base = old.goneOnLocked(u, x.another)
		delete(c.byNumber, old.number)
	}
	c.byPID[id.PID], c.byNumber[n] = x, x
	return true
}

// lastLocked is what a process said last; nil: nothing.
func (c *claims) lastLocked(now time.Time, id process.ID) (last *claim, hasRoom bool) {
	last = c.byPID[id.PID]
	switch {
	case last != nil && last.id == id:
		return last, true
	case last != nil: // of a process that had its number
		c.dropLocked(last)
	case len(c.byPID) >= mostClaims:
		c.sweepLocked(now)
	}
	return nil, len(c.byPID) < mostClaims
}

// between is the most CPU time between two reported requests that is charged to the second: the
// process takes it from the socket, and its server begins. Any more was for another client.
const between = 10 * time.Millisecond

// goneOnLocked takes in that the process serves another request, in addition to others or not, and
// returns what it had used before that.
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

// ends takes in that a process says it has served a request.
func (c *claims) ends(id process.ID, u process.Usage, n Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.byPID[id.PID]; x != nil && x.id == id && x.number == n && x.rest == nil {
		x.rest = &u
	}
}

// of returns the process that serves a request; nil: none reports it.
func (c *claims) of(n Number) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNumber[n]
}

func (c *claims) dropLocked(x *claim) {
	delete(c.byPID, x.id.PID)
	delete(c.byNumber, x.number)
}

// keeps is for how long what a process said is kept that says nothing more.
const keeps = time.Hour

// sweepLocked forgets processes that said nothing for long, or have ended.
func (c *claims) sweepLocked(now time.Time) {
	for _, x := range c.byPID {
		if now.Sub(x.at) > keeps || !x.id.Alive() {
			c.dropLocked(x)
		}
	}
}
