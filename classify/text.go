package classify

import (
	"strings"
	"sync"
)

// textSize is how much memory the IDs of several requests share: no more, as one of them
// that is kept for long keeps the others.
const textSize = 1 << 10

// texts makes strings, which lie one behind the other in shared memory. It may be used
// concurrently.
type texts struct{ pool sync.Pool }

// of is a string of some bytes.
func (s *texts) of(p []byte) string {
	b, ok := s.pool.Get().(*strings.Builder)
	if !ok {
		b = new(strings.Builder)
	}
	if b.Cap()-b.Len() < len(p) {
		b.Reset()
		b.Grow(max(len(p), textSize))
	}
	at := b.Len()
	b.Write(p)
	all := b.String()
	s.pool.Put(b)
	return all[at:]
}
