// Package account keeps an account of CPU time for every key. An account is a token bucket, which fills at a
// steady rate up to a burst. Requests are charged to the bucket, even if the charges put it into debt.
//
// A [Table] holds the [Bucket] of each key. The table is bounded, because it can forget full buckets: a key
// without a bucket counts as one with a full bucket. A [Reservation] is what one key was charged for a request:
//
//	Lookup, Enter   finds or makes the key's bucket, and pins it; Lookup can also reserve without locking again
//	Reserve         charges the guess; Undo gives it back while the request waits
//	Change          charges more while the request runs
//	Settle          corrects the charge to the real cost, and unpins the bucket
//	Leave           gives back all charges if the request never ran, and unpins the bucket
//
// The [Terms] of a class say what its keys earn. The user of the package decides what debt means for a
// request, and may store a Value with each bucket.
//
// Times are durations since an epoch that the user chooses; amounts are CPU-seconds. Buckets of the same shard
// share a lock. The package holds no lock when it calls yield, so users may call the package while they hold
// locks of their own.
package account
