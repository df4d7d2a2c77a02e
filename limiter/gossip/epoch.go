package gossip

import "time"

// node is one run of one sidecar: a random number that it draws as it starts, so
// that one that was restarted is another.
type node uint64

// epochs divide the wall clock. They are told apart by when they end, in
// milliseconds since 1970, so that peers may have them of different lengths.
type epochs struct {
	length time.Duration
}

// end of the epoch that an instant is in; an epoch does not contain its end.
func (e epochs) end(now time.Time) time.Time {
	length := int64(e.length)
	return now.Add(time.Duration(length - now.UnixNano()%length))
}

// ended is the end of the last epoch that was over by then.
func (e epochs) ended(now time.Time) int64 {
	return now.Add(-time.Duration(now.UnixNano() % int64(e.length))).UnixMilli()
}
