package quota

import (
	"context"
	"time"
)

// Store keeps buckets. Its methods may be called concurrently.
type Store interface {
	// Check puts units, at least 1, into the bucket that an actor, a client say, has for
	// the rule of that name, if they have room. Units below 0 are taken out again, as far as they
	// are still there. A store with a clock of its own does not
	// go by now. After an error nothing is known, and the caller lets the request pass. The
	// zero Bucket lets all pass.
	Check(ctx context.Context, now time.Time, actor, name string, b Bucket, units int64) (Status, error)
}
