package redis

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter"
)

// ErrAway means that no call was made, because Redis didn't answer recently or isn't connected yet.
var ErrAway = errors.New("redis can't be reached")

// link is the connection to Redis. The first call opens it. No call takes longer than the timeout. While
// Redis can't be reached, calls fail at once, and one goroutine tries to connect until Redis answers again.
type link struct {
	options Options
	ended   context.Context // ends when close is called
	end     context.CancelFunc
	seekers sync.WaitGroup
	tried   chan struct{} // closed after the first attempt to connect

	mu      sync.Mutex // guards the fields below
	client  rueidis.Client
	up      bool // Redis answered the last call
	seeking bool // seek's goroutine is running
	noted   State
}

func newLink(o Options) *link {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	l := &link{options: o, tried: make(chan struct{})}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// note changes the state that the doctor shows.
func (l *link) note(change func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.noted)
}

// state returns the state that the doctor shows.
func (l *link) state() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.noted
	s.Connected = l.up
	return s
}

// do makes one call, unless Redis can't be reached.
func (l *link) do(ctx context.Context, call func(context.Context, rueidis.Client) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	client := l.connected(bounded)
	if client == nil {
		return ErrAway
	}
	err := call(bounded, client)
	if ctx.Err() != nil {
		return err // the caller stopped waiting, which says nothing about Redis
	}
	if l.learn(err); answered(err) {
		l.note(func(s *State) { s.RoundTrips++ })
	}
	return err
}

// connected returns the client, or nil while Redis can't be reached. It waits only for the first connection
// attempt.
func (l *link) connected(ctx context.Context) rueidis.Client {
	l.seek()
	select {
	case <-l.tried:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return nil
	}
	return l.client
}

// learn updates the state after a call or an attempt to connect. A server that answers but refuses the
// connection, for example because of a wrong password, counts as unreachable.
func (l *link) learn(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.noted.LastError = err.Error()
	}
	if l.up = answered(err) && l.client != nil; !l.up {
		l.noted.Failures++
	}
}

// answered reports whether Redis answered, even with an error. A server that is still loading its data counts
// as unreachable.
func answered(err error) bool {
	if err == nil || errors.Is(err, errGarbage) {
		return true
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && !answer.IsLoading()
}

// These are the pauses between attempts to reach Redis. Each is twice as long as the previous one, up to a
// second. All instances therefore share again within two seconds after Redis has come back.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// seek starts a goroutine that tries to connect until Redis answers. It does nothing if Redis already answers
// or such a goroutine is already running.
func (l *link) seek() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up || l.seeking || l.ended.Err() != nil {
		return
	}
	l.seeking = true
	l.seekers.Go(func() {
		for pause := firstPause; l.ended.Err() == nil; pause = min(2*pause, lastPause) {
			l.learn(l.ping())
			select {
			case <-l.tried:
			default:
				close(l.tried)
			}
			if l.state().Connected {
				break
			}
			select {
			case <-l.ended.Done():
			case <-time.After(pause - mathrand.N(pause/4)): //nolint:gosec // keeps instances from connecting at the same time
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seeking = false
	})
}

// ping opens the connection if there is none, and sends a PING. After that, the library reconnects
// automatically.
func (l *link) ping() error {
	l.mu.Lock()
	client := l.client
	l.mu.Unlock()
	if client == nil {
		var err error
		if client, err = rueidis.NewClient(l.options.client()); err != nil {
			return err
		}
		l.mu.Lock()
		l.client = client
		l.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(l.ended, l.options.Timeout)
	defer cancel()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

// close ends the connection. Later calls fail.
func (l *link) close() {
	l.mu.Lock()
	l.end() // called under the lock, so seek can't start a goroutine afterwards
	l.mu.Unlock()
	l.seekers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.Close()
	}
}

// seal encrypts the keys in the log, so readers of Redis can't see which clients are in debt. An instance
// ignores entries that were written with a different salt, because it can't decrypt them.
type seal struct{ aead cipher.AEAD }

func newSeal(salt string) seal {
	key := sha256.Sum256([]byte("tempomat debtors " + salt))
	block, _ := aes.NewCipher(key[:]) // fails only for other lengths
	aead, _ := cipher.NewGCM(block)   // fails only for other block sizes
	return seal{aead}
}

// longestKey limits the length of sealed keys, in bytes. A longer key is charged in Redis, but isn't announced
// to the other instances.
const longestKey = 1024

// close seals a key. It returns an empty string if the key can't be sealed.
func (s seal) close(k limiter.Key) string {
	if len(k.Class)+len(k.ID) >= longestKey || strings.Contains(k.Class, "\x00") {
		return ""
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(k.Class)+1+len(k.ID)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return string(s.aead.Seal(nonce, nonce, []byte(k.Class+"\x00"+k.ID), nil))
}

// open returns the key that was sealed. It returns false if the string isn't a sealed key, or was sealed with
// a different salt.
func (s seal) open(sealed string) (limiter.Key, bool) {
	n := s.aead.NonceSize()
	if len(sealed) < n || len(sealed) > 2*longestKey {
		return limiter.Key{}, false
	}
	plain, err := s.aead.Open(nil, []byte(sealed[:n]), []byte(sealed[n:]), nil)
	if err != nil {
		return limiter.Key{}, false
	}
	class, id, ok := strings.Cut(string(plain), "\x00")
	return limiter.Key{Class: class, ID: id}, ok
}

// log is a log in Redis (a stream of limited length), and the position up to which this instance has read it.
type log struct {
	name   string
	cursor string // ID of the last entry read; empty: no entry has been read
}

// entry is an entry of a log: a key in debt, or a packet.
type entry struct {
	text string // the sealed key, or the packet
	left int64  // microseconds for which the entry is still valid
}

// from returns the ID that follows the last entry read. (Redis before 6.2 can't exclude the start of a range.)
func (l *log) from() string {
	ms, n, _ := strings.Cut(l.cursor, "-")
	last, err := strconv.ParseUint(n, 10, 64)
	if err != nil || last == math.MaxUint64 {
		return "-" // from the beginning
	}
	return ms + "-" + strconv.FormatUint(last+1, 10)
}

// page reads a page of the log and moves the cursor. now is the server's time in microseconds. An entry that
// is invalid or no longer valid becomes the zero entry.
func (l *log) page(now int64, m rueidis.RedisMessage) ([]entry, error) {
	found, err := m.AsXRange()
	if err != nil {
		return nil, err
	}
	page := make([]entry, len(found))
	for i, f := range found {
		if until, err := strconv.ParseInt(f.FieldValues["u"], 10, 64); err == nil && until > now {
			page[i] = entry{f.FieldValues["k"], until - now}
		}
		l.cursor = f.ID
	}
	if l.lost(now) {
		l.cursor = ""
	}
	return page, nil
}

// lost reports whether the cursor is ahead of the server's clock. If so, the log was deleted and a new one
// started.
func (l *log) lost(now int64) bool {
	ms, _, _ := strings.Cut(l.cursor, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	return l.cursor != "" && (err != nil || at > now/1000+stale.Milliseconds())
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }
