// Package account keeps an account of CPU time for every key: a token bucket, which fills at
// a steady rate up to a burst, and which requests are charged to, into debt if need be.
//
// A [Table] has the [Bucket] of each key, and is bounded: a full bucket is the same as none, so
// it can be forgotten. What a request means to one of its keys is a [Reservation]:
//
//	Lookup, Enter   finds the key's bucket, or makes it, and pins it
//	Reserve         charges the guess, Undo takes that back while the request waits
//	Change          charges more as it runs
//	Settle          charges what it did cost, or gives the rest back, and lets go of the bucket
//	Leave           gives all back, if it never ran, and lets go
//
// A class grants its keys its [Terms]. The user of the package decides what debt means to a
// request, and keeps a Value of its own with each bucket.
//
// It gets the time as a duration since an epoch of the user's; amounts are CPU-seconds. Each
// bucket is guarded by a lock that it shares with some others. It is taken after all the user's
// locks, and no call back to the user is made under it.
package account
