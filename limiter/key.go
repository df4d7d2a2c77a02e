package limiter

import (
	"time"

	"tempomat/limiter/account"
)

// MaxKeys is the most classes that one request can be charged to.
const MaxKeys = 8

// Key is one member of a class: {slash24, 203.0.113.0/24}.
type Key = account.Key

// Budget is what a class lets each of its keys use.
type Budget struct {
	// CPUs is the rate at which a key earns credit, in CPU-seconds per second.
	CPUs float64
	// Burst is the most CPU time that a key can have saved up. Zero is allowed:
	// a key then has exactly what it earns.
	Burst time.Duration
	// Cap makes the class a hard ceiling in every mode but Observe: a request waits
	// before the backend until the debt of its key is paid.
	Cap bool
	// Shadow judges and counts, and never acts: the debt of a key of the class neither
	// delays its requests nor makes them dearer at the gate, and it may hold any number of
	// workers. The first class is still whom the gate takes for a client.
	Shadow bool
	// External makes the class one that nothing is charged to here: its keys wait until
	// when peers say, by Raise. CPUs, Burst and Cap mean nothing then.
	External bool
	// LocalOnly keeps the class from peers: they know its keys by other names.
	LocalOnly bool
	// Workers is the part of the backend's workers that are not kept for short
	// requests which one key of the class may hold with requests that are not
	// short: above 0 to 1; zero is any part.
	Workers float64
	// MaxHold is the longest that a request waits for the class's sake before it is
	// refused; zero is the policy's.
	MaxHold time.Duration
}
