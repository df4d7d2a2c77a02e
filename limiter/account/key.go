package account

import "time"

// Key is one member of a class: {slash24, 203.0.113.0/24}.
type Key struct {
	Class string // the class's name, as configured
	ID    string // the member, as text: an address, a prefix, a User-Agent family, a hash
}

// Terms are those on which the keys of a class have their accounts. They never change: a
// class that is to have others gets new ones, by SetTerms.
type Terms struct {
	Class string
	Rate  float64 // CPU-seconds earned per second; above 0
	Burst float64 // CPU-seconds: the most credit, 0 or more
	Floor float64 // CPU-seconds: the most debt, below 0

	LocalOnly bool          // peers are not told
	External  bool          // nothing is charged: what a key owes is the time until which peers want it to wait
	Cap       bool          // a request waits for the debt to be paid
	Hold      bool          // a response is held until it is
	Shadow    bool          // neither happens, it is only said
	Plain     bool          // the clients' standing does not change what they earn: a hard cap is the same for all
	Aside     bool          // the class alone is in shadow: its keys' debts make nothing dearer, either
	Workers   float32       // the part of those not kept for short requests that a key may hold; 0: any
	MaxHold   time.Duration // the longest wait before a refusal
}

// Concerns tells whether a key that owes for so long delays its requests or their responses, or
// would if the class were not in shadow. Who owes nothing needs no terms.
func (t *Terms) Concerns(owes time.Duration) bool { return owes > 0 && (t.Cap || t.Hold) }

// delays tells whether requests of the class wait for a debt.
func (t *Terms) delays() bool { return t.Cap && !t.Shadow }
