package limiter

import (
	"sync/atomic"

	"tempomat/limiter/account"
)

// What every key has is an account; package account keeps it. With it the gate keeps what it
// knows of the key.
type (
	table       = account.Table[keyAtGate]
	bucket      = account.Bucket[keyAtGate]
	reservation = account.Reservation[keyAtGate]
)

// keyAtGate is what the gate knows of a key.
type keyAtGate struct {
	client atomic.Pointer[client] // nil: the key was never a client's at the gate

	holds, orphans int32 // see hold.go; guarded by the gate
}
