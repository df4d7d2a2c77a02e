package limiter

import (
	"cmp"
	"time"

	"tempomat/limiter/account"
)

// Mode is what the limiter does about debt. See the package documentation.
type Mode uint8

// The modes.
const (
	Observe     Mode = iota // charge and count; delay no request
	Cooperative             // run at once, then hold the response until the debt is paid
	Cap                     // wait in front of the backend until the debt is paid
	Fair                    // wait only while the backend has no room, in an order that depends on debt
)

func (m Mode) String() string {
	switch m {
	case Cooperative:
		return "cooperative"
	case Cap:
		return "cap"
	case Fair:
		return "fair"
	case Observe:
	}
	return "observe"
}

// DefaultMemory is the longest time that a key takes to pay off its debt, unless the policy sets another.
const DefaultMemory = 120 * time.Second

// Policy holds the limiter's settings. SetPolicy replaces all of them.
type Policy struct {
	Mode    Mode
	Shadow  bool        // decide and count, but never delay or refuse
	Classes []ClassInfo // at most MaxKeys; the first one is the client
	// Sites are the sites that have a share of their own. Their names are unique. If there are none, all
	// requests belong to one site.
	Sites []SiteInfo
	// OtherSites is the share of the requests that are for none of Sites, all together. 0 means 1.
	OtherSites float64
	// MaxHold is the longest time for which a request or a response is held.
	MaxHold time.Duration
	// MaxHeld limits how many requests are held at once. A single client, such as an office, may use all of
	// that room while no other client wants it, because a full queue refuses requests of the client with the
	// most requests.
	MaxHeld int
	// Memory bounds debt: no key owes more than it earns in this time. Zero means DefaultMemory.
	Memory time.Duration
	// Gate describes the queue in front of the backend. Fair and Observe use it; Observe only reports what Fair
	// would have done.
	Gate GateOptions
}

// activePolicy is a Policy prepared for the request path.
type activePolicy struct {
	Policy
	terms []*account.Terms // one for each of Classes
	gated bool             // requests go through the gate
}

func compile(p Policy, instances int) *activePolicy {
	if p.Memory <= 0 {
		p.Memory = DefaultMemory
	}
	p.Gate.CPUs = max(1, p.Gate.CPUs)
	c := &activePolicy{Policy: p, gated: p.Mode == Fair || p.Mode == Observe}
	for _, info := range p.Classes {
		b := info.Budget
		memory := p.Memory
		if b.External {
			b.CPUs, b.Burst, b.Cap, memory = 1, 0, true, longestExternal
		}
		if b.Shadow {
			b.Workers = 0 // no limit
		}
		capped := p.Mode == Cap || (b.Cap && p.Mode != Observe)
		c.terms = append(c.terms, &account.Terms{
			Class:     info.Name,
			Rate:      b.CPUs,
			Burst:     b.Burst.Seconds() / float64(instances),
			Floor:     -b.CPUs * memory.Seconds(),
			External:  b.External,
			LocalOnly: b.LocalOnly,
			Cap:       capped,
			Hold:      p.Mode == Cooperative && !capped,
			Shadow:    p.Shadow || b.Shadow,
			Aside:     b.Shadow,
			Plain:     !c.gated || capped && !p.Shadow && !b.Shadow,
			Workers:   float32(b.Workers),
			MaxHold:   cmp.Or(b.MaxHold, p.MaxHold),
		})
	}
	return c
}

// longestExternal is the longest time for which other instances can delay a key of an external class.
const longestExternal = 24 * time.Hour

// standing limits the factor that multiplies a client's share to the range from 1/2 to 8.
func (p *activePolicy) standing(given float64) float64 {
	if given <= 0 || !p.gated {
		return 1
	}
	return max(0.5, min(given, 8))
}

// MaxKeys is the largest number of classes that one request can be charged to.
const MaxKeys = 8

// Key is one member of a class, such as {slash24, 203.0.113.0/24}.
type Key = account.Key

// Budget is what each key of a class may use.
type Budget struct {
	// CPUs is the rate at which a key earns credit, in CPU-seconds per second.
	CPUs float64
	// Burst is the most CPU time that a key can save. If it is zero, a key saves nothing, and can use only
	// what it is earning at the moment.
	Burst time.Duration
	// Cap makes the class a hard ceiling in every mode except Observe: a request waits in front of the backend
	// until the debt of its key is paid.
	Cap bool
	// Shadow means that the class decides and counts, but never acts: the debt of its keys neither delays
	// their requests nor makes them more expensive at the gate, and they may hold any number of workers. If it
	// is the first class, its keys are still the gate's clients.
	Shadow bool
	// External means that nothing is charged to the class here. Requests of its keys wait for as long as other
	// instances say (Raise). CPUs, Burst and Cap then have no effect.
	External bool
	// LocalOnly means that charges of the class aren't shared, because other instances name its keys
	// differently.
	LocalOnly bool
	// Workers limits how many workers one key of the class may hold with requests that aren't short. It is a
	// fraction of the workers that aren't kept for short requests, greater than 0 and at most 1. Zero means no
	// limit. While some of these workers are free, requests that end soon don't count.
	Workers float64
	// MaxHold is the longest time that a request waits because of this class before it is refused. Zero means
	// the MaxHold of the policy.
	MaxHold time.Duration
}
