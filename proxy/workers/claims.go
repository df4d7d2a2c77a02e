package workers

import (
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

// Number is that of a request that is at the backend. 0: it has none.
type Number uint64

// Numbers gives requests their numbers, and writes them so that who was not given one
// cannot make one up: as the one block that this cipher makes of it. Its methods may be
// called concurrently.
type Numbers struct {
	block cipher.Block
	last  atomic.Uint64
}

// NewNumbers makes one with a secret of its own.
func NewNumbers() *Numbers {
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
	base   process.Usage
	at     time.Time

	// guarded by claims.mu:
	rest    *process.Usage // what it had used when it had served it, as it says, or went on to another one
	another bool           // it says that it serves another one, without having said that
}

// final is what the process had used when it had served the request.
func (c *claim) final() (u process.Usage, ok bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.rest == nil {
		return u, false
	}
	return *c.rest, true
}

// serves tells whether the process serves nothing else, as far as it says.
func (c *claim) serves() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return !c.another
}

// mostClaims is of how many processes what they say is kept.
const mostClaims = 4096

// claims is what processes say, of each the last thing only, and of each request who said
// it first. Its methods may be called concurrently.
type claims struct {
	mu       sync.Mutex // guards the following
	byPID    map[int]*claim
	byNumber map[Number]*claim
}

func newClaims() *claims {
	return &claims{byPID: map[int]*claim{}, byNumber: map[Number]*claim{}}
}

// begins takes in that a process says it serves a request from now on. It returns false if
// another one said so before, or there is no room.
func (c *claims) begins(now time.Time, id process.ID, u process.Usage, n Number) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.byNumber[n]; taken {
		return false
	}
	base := u
	if old := c.byPID[id.PID]; old != nil {
		if old.id == id {
			base = old.goneOnLocked(u)
		}
		c.dropLocked(old)
	}
	if len(c.byPID) >= mostClaims {
		c.sweepLocked(now)
		if len(c.byPID) >= mostClaims {
			return false
		}
	}
	x := &claim{of: c, id: id, number: n, base: base, at: now}
	c.byPID[id.PID], c.byNumber[n] = x, x
	return true
}

// between is how much a process uses at most from one request to the next that is the next
// one's: it takes it from the socket, and its server begins. What is more was for somebody
// else.
const between = 10 * time.Millisecond

// goneOnLocked takes in that the process serves another request, and returns what it had used
// before that.
func (c *claim) goneOnLocked(now process.Usage) (base process.Usage) {
	if c.rest == nil {
		c.rest, c.another = &now, true
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

// of returns who serves a request; nil: nobody says so.
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

// sweep forgets who said nothing for long, or has ended.
func (c *claims) sweepLocked(now time.Time) {
	for _, x := range c.byPID {
		if now.Sub(x.at) > keeps || !x.id.Alive() {
			c.dropLocked(x)
		}
	}
}
