package redis

import (
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

// ErrAway is the error of a call that was not made, because Redis did not answer recently or is
// not connected yet.
var ErrAway = errors.New("redis is away")

// link is the connection to Redis, made by the first call that finds none. No
// call waits longer than its timeout, and none waits for a Redis that is known
// to be away.
type link struct {
	options Options
	breaker breaker
	// patient says that callers may wait to find out whether Redis is back. Where
	// they are requests, a goroutine of the link's own does.
	patient bool
	probes  sync.WaitGroup

	mu     sync.Mutex // guards the following
	client rueidis.Client
	closed bool
	noted  State // except for Connected
}

func newLink(o Options) *link { return &link{options: o.complete()} }

// note changes what is to be told of it.
func (l *link) note(change func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.noted)
}

// state is what is to be told of it.
func (l *link) state() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.noted
	s.Connected = l.breaker.connected()
	return s
}

// do makes one call, if Redis is not away. An error of the call that Redis sent
// as its answer shows that it is there.
func (l *link) do(ctx context.Context, call func(context.Context, rueidis.Client) error) error {
	ok, trial := l.breaker.admit(time.Now())
	if ok && trial && !l.patient {
		l.probe()
		ok = false
	}
	if !ok {
		return ErrAway
	}
	return l.call(ctx, call)
}

// probe finds out whether Redis is back, while the caller goes on.
func (l *link) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.breaker.abandoned()
		return
	}
	l.probes.Go(func() {
		_ = l.call(context.Background(), func(ctx context.Context, c rueidis.Client) error {
			return c.Do(ctx, c.B().Ping().Build()).Error()
		})
	})
}

// call makes a call that was admitted, and tells the breaker what came of it.
func (l *link) call(ctx context.Context, call func(context.Context, rueidis.Client) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	client, err := l.connect(bounded)
	if err == nil {
		err = call(bounded, client)
	}
	now := time.Now()
	switch {
	case answered(err):
		l.breaker.succeeded()
		l.note(func(s *State) {
			s.RoundTrips++
			s.LastContact = now
			if err != nil {
				s.LastError = err.Error()
			}
		})
	case ctx.Err() != nil: // the caller gave up, which shows nothing about Redis
		l.breaker.abandoned()
	default:
		l.breaker.failed(now)
		l.note(func(s *State) { s.Failures, s.LastError = s.Failures+1, err.Error() })
	}
	return err
}

// answered says whether Redis answered, were it with an error. One that is
// loading its data or has lost its cluster is as good as away.
func answered(err error) bool {
	if err == nil || errors.Is(err, errGarbage) || errors.Is(err, errNotInteger) {
		return true
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && !answer.IsLoading() && !answer.IsClusterDown()
}

// connect returns the client, and makes it if there is none. The library connects before it
// returns one, and cannot be stopped: a caller that runs out of time leaves the connection to
// the others.
func (l *link) connect(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	client, closed := l.client, l.closed
	l.mu.Unlock()
	if closed {
		return nil, rueidis.ErrClosing
	}
	if client != nil {
		return client, nil
	}
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(l.options.client())
		done <- made{l.keep(client, err), err}
	}()
	select {
	case m := <-done:
		return m.client, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keep makes a new client the link's, unless there is one already.
func (l *link) keep(client rueidis.Client, err error) rueidis.Client {
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.client != nil {
		client.Close()
		return l.client
	}
	l.client = client
	return client
}

// close ends the connection; calls after it fail. It waits for no longer than a
// call may take.
func (l *link) close() {
	l.mu.Lock()
	client := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if client != nil {
		client.Close()
	}
	l.probes.Wait()
}

// How long Redis is left alone after a failure: twice as long each time, up to a second, so
// sidecars agree again within two seconds of its return.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// breaker keeps callers from waiting for a Redis that is away: after a failure
// all are rejected at once, except for one from time to time who tries. Its
// methods may be called concurrently.
type breaker struct {
	mu     sync.Mutex // guards the following
	pause  time.Duration
	closed bool // the last call succeeded
	trying bool // a trial call is under way
	next   time.Time
}

// admit reports whether to call Redis now, and whether that is a trial to find out if it is
// back. An admitted caller must report the result.
func (b *breaker) admit(now time.Time) (ok, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return true, false
	}
	if b.trying || now.Before(b.next) {
		return false, false
	}
	b.trying = true
	return true, b.pause > 0
}

// succeeded notes that Redis answered.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.trying, b.pause = true, false, 0
}

// failed notes that it did not. Of the calls under way when it went away, only
// the first one counts.
func (b *breaker) failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.trying {
		return
	}
	b.closed, b.trying = false, false
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.next = now.Add(b.pause - mathrand.N(b.pause/4)) //nolint:gosec // so sidecars do not all come at once
}

// abandoned notes that a call ended before anything was known of Redis.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// connected reports whether the last call succeeded.
func (b *breaker) connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// seal hides from readers of Redis which clients owe, and distinguishes what another sidecar
// wrote from anything else. It is as good as the salt is secret.
type seal struct{ aead cipher.AEAD }

func newSeal(salt string) seal {
	key := sha256.Sum256([]byte("tempomat debtors " + salt))
	block, _ := aes.NewCipher(key[:]) // fails for other lengths only
	aead, _ := cipher.NewGCM(block)   // fails for other block sizes only
	return seal{aead}
}

// longestKey bounds what is sealed. A longer key is shared, but not told of.
const longestKey = 1024

// close seals a key; empty if it cannot be.
func (s seal) close(k limiter.Key) string {
	if len(k.Class)+len(k.ID) >= longestKey || strings.Contains(k.Class, "\x00") {
		return ""
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(k.Class)+1+len(k.ID)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return string(s.aead.Seal(nonce, nonce, []byte(k.Class+"\x00"+k.ID), nil))
}

// open returns what was sealed; false if that was not done with this salt.
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

// entry is what a log tells of a key.
type entry struct {
	sealed string
	owes   int64 // microseconds
}

// from is where to read the log on: behind the cursor. (That a range may leave out
// its beginning is known to Redis from 6.2 on only.)
func (h *shard) from() string {
	ms, n, _ := strings.Cut(h.cursor, "-")
	last, err := strconv.ParseUint(n, 10, 64)
	if err != nil || last == math.MaxUint64 {
		return "-" // from the beginning
	}
	return ms + "-" + strconv.FormatUint(last+1, 10)
}

// page reads a page of the log, and continues after it. It skips what is not an entry.
func (h *shard) page(sent time.Time, r rueidis.RedisResult) ([]entry, error) {
	got, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	if len(got) != 2 {
		return nil, errGarbage
	}
	now, err := got[0].AsInt64()
	if err != nil || !h.answered(sent, now) {
		return nil, errGarbage
	}
	found, err := got[1].AsXRange()
	if err != nil {
		return nil, errGarbage
	}
	page := make([]entry, len(found))
	for i, f := range found {
		if until, err := strconv.ParseInt(f.FieldValues["u"], 10, 64); err == nil && until > now {
			page[i] = entry{sealed: f.FieldValues["k"], owes: until - now}
		}
	}
	if len(found) > 0 {
		h.cursor = found[len(found)-1].ID
	}
	if h.lost(now) {
		h.cursor = ""
	}
	return page, nil
}

// lost says that the log cannot have come as far as it was read, by the server's
// clock in microseconds: it is another log.
func (h *shard) lost(now int64) bool {
	ms, _, _ := strings.Cut(h.cursor, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	return h.cursor != "" && (err != nil || at > now/1000+stale.Milliseconds())
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }
