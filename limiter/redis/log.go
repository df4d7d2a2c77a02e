package redis

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

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

// page reads a page of the log, and goes on behind it. What is not an entry is
// passed over.
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
