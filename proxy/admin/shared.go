package admin

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	mostShared = 64 // answers that are kept
	oldest     = 10 * time.Second
)

// shared gives an answer to all who say that they take one of the last seconds
// (Cache-Control: max-age), so that many viewers cost what one does. Its methods may be
// called concurrently.
type shared struct {
	next http.Handler
	now  func() time.Time

	mu      sync.Mutex // guards the following
	answers map[string]*kept
}

// kept is an answer; the header and the body count once ready is closed.
type kept struct {
	at     time.Time
	ready  chan struct{}
	ok     bool // it can be given to others
	status int
	header http.Header
	body   bytes.Buffer
}

func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	age := maxAge(r)
	if age == 0 || r.Method != http.MethodGet || r.URL.Path == eventsPath {
		s.next.ServeHTTP(w, r)
		return
	}
	k, first := s.find(r.URL.RequestURI(), age)
	switch {
	case k == nil:
		s.next.ServeHTTP(w, r)
		return
	case first:
		s.make(k, r)
	default:
		select {
		case <-k.ready:
		case <-r.Context().Done():
			return
		}
	}
	if !k.ok {
		s.next.ServeHTTP(w, r)
		return
	}
	maps.Copy(w.Header(), k.header)
	w.Header().Set("Age", strconv.Itoa(int(s.now().Sub(k.at).Seconds())))
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // who has left needs no answer
}

// find returns the answer to a target, and whether the caller has to make it; nil: it cannot
// be kept.
func (s *shared) find(target string, age time.Duration) (k *kept, first bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.answers[target]; k != nil && now.Sub(k.at) < age {
		return k, false
	}
	for other, k := range s.answers {
		if now.Sub(k.at) >= oldest {
			delete(s.answers, other)
		}
	}
	if _, again := s.answers[target]; len(s.answers) >= mostShared && !again {
		return nil, false
	}
	if s.answers == nil {
		s.answers = make(map[string]*kept)
	}
	k = &kept{at: now, ready: make(chan struct{}), status: http.StatusOK, header: make(http.Header)}
	s.answers[target] = k
	return k, true
}

// make has the answer made, also if who asked for it leaves meanwhile: others wait for it.
// Errors and panics are not for others.
func (s *shared) make(k *kept, r *http.Request) {
	defer close(k.ready)
	s.next.ServeHTTP(k, r.WithContext(context.WithoutCancel(r.Context())))
	k.ok = k.status == http.StatusOK
}

// Header implements http.ResponseWriter.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }

// maxAge is how old an answer may be, in whole seconds; 0: it must be new.
func maxAge(r *http.Request) time.Duration {
	for d := range strings.SplitSeq(r.Header.Get("Cache-Control"), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(d), "max-age="); ok {
			n, err := strconv.ParseUint(text, 10, 16)
			if err == nil {
				return min(time.Duration(n)*time.Second, oldest)
			}
		}
	}
	return 0
}
