package api

// The documents of single clients, pages and requests.
type (
	// ExplainReply answers GET /v1/explain (of: an address, a network, a User-Agent, a path or
	// URL, or a request id): all that is known of it, in plain words and as numbers.
	ExplainReply struct {
		Version int    `json:"version"`
		Of      string `json:"of"`   // as it was asked for
		Kind    string `json:"kind"` // address, network, agent, page or request
		// Summary is one sentence: what happens to it at this moment, and why.
		Summary  string           `json:"summary"`
		Sections []ExplainSection `json:"sections"`
		// Advice is what would change it, one sentence each.
		Advice  []string     `json:"advice"`
		Waits   int          `json:"waits"`   // its requests that wait
		Waiting []WaiterRow  `json:"waiting"` // the first of them
		Recent  []VerdictRow `json:"recent"`  // what became of its last ones, those alike as one
	}
	// ExplainSection is some facts under a heading.
	ExplainSection struct {
		Title string        `json:"title"`
		Facts []ExplainFact `json:"facts"`
	}
	// ExplainFact is one fact: a name, a value with its unit, and what that means.
	ExplainFact struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		Means string `json:"means"` // a sentence; may be empty
	}

	// ActRequest is the body of POST /v1/forgive and POST /v1/pin.
	ActRequest struct {
		Class string `json:"class"` // as configured
		Key   string `json:"key"`
		// Seconds is for how long a pin holds, up to a week; forgive takes none.
		Seconds float64 `json:"seconds,omitempty"`
		// Standing is what a pin multiplies the client's share by, 0.5 to 8; 0: the pin is taken
		// back.
		Standing float64 `json:"standing,omitempty"`
	}
	// ActReply answers them.
	ActReply struct {
		Version int    `json:"version"`
		Done    string `json:"done"` // in words
	}
	// PinsReply answers GET /v1/pins.
	PinsReply struct {
		Version int      `json:"version"`
		Pins    []PinRow `json:"pins"`
	}
	// PinRow is a client that somebody gave a standing.
	PinRow struct {
		Class    string  `json:"class"`
		Key      string  `json:"key"`
		Standing float64 `json:"standing"`
		Left     float64 `json:"left"` // seconds that it holds
	}
)
