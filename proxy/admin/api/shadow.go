package api

// The documents of what would have been: GET /v1/shadow (hours: 1 to 168) answers ShadowReply.
type (
	// ShadowReply is an estimate of what would have become of the requests of the last
	// hours if what is in shadow had acted. See package shadow for how it is made.
	ShadowReply struct {
		Version int          `json:"version"`
		Mode    string       `json:"mode"`   // what is in shadow now: fair, cap, cooperative; empty: nothing
		Until   float64      `json:"until"`  // requests that came until then are in it, Unix time in seconds; 0: none since the start
		Window  float64      `json:"window"` // by how many seconds that is behind at most
		Modes   []ShadowMode `json:"modes"`  // all that were in shadow in these hours
	}
	// ShadowMode is the hours in which a mode was in shadow.
	ShadowMode struct {
		Mode string `json:"mode"`
		ShadowSum
		Classes []ShadowClass `json:"classes"`
		Hours   []ShadowHour  `json:"hours"` // the oldest first
	}
	// ShadowHour is an hour of UTC.
	ShadowHour struct {
		At float64 `json:"at"` // its beginning, Unix time in seconds
		ShadowSum
	}
	// ShadowSum is what became of requests, and would have.
	ShadowSum struct {
		Requests uint64        `json:"requests"`
		Lost     uint64        `json:"lost"`   // more that are not among them, as there was no room for them
		Late     uint64        `json:"late"`   // of them, that took so long that they were reckoned with as if they had come later
		Groups   []ShadowGroup `json:"groups"` // known, newcomers, strangers, robots, exempt
		Causes   []ShadowCause `json:"causes"` // what would have acted, most first
	}
	// ShadowGroup is the requests of a group.
	ShadowGroup struct {
		Name     string     `json:"name"`
		Requests uint64     `json:"requests"`
		Was      ShadowDone `json:"was"`
		Would    ShadowDone `json:"would"`
	}
	// ShadowCause is what would have acted: a class, by the debt of its keys; gate, the queue
	// before the backend; held answers; limit and the name of a request limit.
	ShadowCause struct {
		Name string `json:"name"`
		ShadowDone
	}
	// ShadowDone is what was done with requests.
	ShadowDone struct {
		CPU        float64 `json:"cpu"`     // CPU-seconds that they were charged with; of causes: that those would have cost that would have been refused
		Delayed    uint64  `json:"delayed"` // by 100 ms or more
		Refused    uint64  `json:"refused"`
		Redirected uint64  `json:"redirected"`
		P50        float64 `json:"p50"` // seconds, of the delayed
		P95        float64 `json:"p95"`
	}
	// ShadowClass is the keys of a class that it would have met most.
	ShadowClass struct {
		Class string      `json:"class"`
		Keys  []ShadowKey `json:"keys"` // at most 20
	}
	// ShadowKey is what would have become of the requests of a key. CPU is what those would
	// have cost that would have been refused; up to Error requests of others may be of the
	// key as well, as only so many keys are counted at a time.
	ShadowKey struct {
		Name       string  `json:"name"`
		Delayed    uint64  `json:"delayed"`
		Refused    uint64  `json:"refused"`
		Redirected uint64  `json:"redirected"`
		CPU        float64 `json:"cpu"`
		Longest    float64 `json:"longest"` // wait in seconds
		Error      uint64  `json:"error,omitempty"`
	}
)
