package limiter

import (
	"sync"
	"time"
)

// waitingRoom is the waiting room: requests that wait for a key's debt to be paid,
// and the count of all that is held, responses included.
//
// A request waits in the queue of the key that blocks it longest. The head of
// a queue leaves when that key owes nothing, and is charged as it leaves, so
// that the next one waits until that is paid: the key's pace, never a herd.
// If then another of its keys is in debt, it goes to that one's queue, to the
// place that its arrival gives it.
type waitingRoom struct {
	mu      sync.Mutex         // guards the following, and each waitEntry; taken before the gate's
	queues  []*queue           // those that are not empty
	of      map[*bucket]*queue // the same by their buckets
	held    int
	seq     uint64
	decided decisions
}

// queue is a list of tickets in the order of their arrival.
type queue struct {
	bucket     *bucket
	head, tail *Ticket
	n          int
}

// waitEntry is where a ticket is in the room.
type waitEntry struct {
	in         *queue // nil: in no queue
	next, prev *Ticket
	counted    bool // among the held
	seq        uint64
	arrived    time.Duration
	since      time.Duration // in this queue
}

// admitLocked counts a request or response as held.
func (r *waitingRoom) admitLocked(t *Ticket) {
	t.waitEntry = &waitEntry{counted: true}
	r.held++
	t.heldLocked(1)
}

// heldLocked counts n more of the client's requests as held, and returns how
// many are. The client is the first key; its class may just have been removed.
func (t *Ticket) heldLocked(n int32) int {
	c := t.own().Bucket
	if c == nil {
		return 0
	}
	return c.Hold(n)
}

// toShedLocked is the request to refuse in a full room, for one that would wait for that key: the newest
// of the longest queue; nil: the key's own would be as long.
func (r *waitingRoom) toShedLocked(forKey *bucket) (t *Ticket) {
	most := 1
	if own := r.of[forKey]; own != nil {
		most += own.n
	}
	for _, q := range r.queues {
		if q.n > most {
			most, t = q.n, q.tail
		}
	}
	return t
}

// dismissLocked takes a ticket out of all of the room.
func (r *waitingRoom) dismissLocked(at time.Duration, t *Ticket) {
	r.unlinkLocked(at, t)
	if t.counted {
		t.counted = false
		r.held--
		t.heldLocked(-1)
	}
}

// linkLocked puts a ticket into a bucket's queue, by arrival.
func (r *waitingRoom) linkLocked(at time.Duration, t *Ticket, b *bucket) {
	q := r.of[b]
	if q == nil {
		q = &queue{bucket: b}
		r.of[b] = q
		r.queues = append(r.queues, q)
	}
	after := q.tail
	for after != nil && after.seq > t.seq {
		after = after.prev
	}
	q.insert(t, after)
	t.since = at
	b.WaitForDebt(1, t.guess)
}

// unlinkLocked takes a ticket out of its queue, if it is in one, and notes how
// long it waited for that key.
func (r *waitingRoom) unlinkLocked(at time.Duration, t *Ticket) {
	q := t.in
	if q == nil {
		return
	}
	q.remove(t)
	q.bucket.WaitForDebt(-1, -t.guess)
	for i := range t.reservations[:t.n] {
		if s := &t.reservations[i]; s.Bucket == q.bucket {
			s.Waited += float32((at - t.since).Seconds())
		}
	}
	if q.head == nil {
		delete(r.of, q.bucket)
		for i := range r.queues {
			if r.queues[i] == q {
				last := len(r.queues) - 1
				r.queues[i], r.queues[last] = r.queues[last], nil
				r.queues = r.queues[:last]
				break
			}
		}
	}
}

func (q *queue) insert(t, after *Ticket) {
	q.n++
	t.in, t.prev = q, after
	if after == nil {
		t.next, q.head = q.head, t
	} else {
		t.next, after.next = after.next, t
	}
	if t.next == nil {
		q.tail = t
	} else {
		t.next.prev = t
	}
}

func (q *queue) remove(t *Ticket) {
	q.n--
	if t.prev == nil {
		q.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.in, t.prev, t.next = nil, nil, nil
}
