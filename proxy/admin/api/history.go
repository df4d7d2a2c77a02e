package api

// The documents of what was: GET /v1/history (hours: 1 to 168) answers HistoryReply, the
// requests of the last hours, in whole hours of UTC.
type (
	// HistoryReply is some hours, the oldest first. Hours in which the proxy did not run are
	// not among them. The last one still runs.
	HistoryReply struct {
		Version int       `json:"version"`
		Since   float64   `json:"since"` // when the history began, Unix time in seconds
		Hours   []HourRow `json:"hours"`
	}
	// HourRow is an hour.
	HourRow struct {
		At         float64        `json:"at"` // its beginning, Unix time in seconds
		Requests   uint64         `json:"requests"`
		CPU        float64        `json:"cpu"`    // CPU-seconds
		Wasted     float64        `json:"wasted"` // of that, for clients that had left
		Refused    uint64         `json:"refused"`
		Redirected uint64         `json:"redirected"`
		Groups     []HistoryPart  `json:"groups"`  // known, newcomers, strangers, robots, exempt
		Classes    []HistoryClass `json:"classes"` // in configured order
		Shapes     []HistoryPart  `json:"shapes"`  // of pages, dearest first; at most 50
		URLs       []HistoryPart  `json:"urls"`    // paths with the values of their parameters, dearest first; at most 50; * for what few asked for
	}
	// HistoryClass is the keys of a class that cost most.
	HistoryClass struct {
		Class string        `json:"class"`
		Keys  []HistoryPart `json:"keys"` // dearest first; at most 50
	}
	// HistoryPart is a part of an hour. CPU is at most as much too high as Error says, as only
	// so many parts are counted at a time. The order is by what is certain, CPU less Error.
	HistoryPart struct {
		Name     string  `json:"name"`
		CPU      float64 `json:"cpu"` // CPU-seconds
		Error    float64 `json:"error,omitempty"`
		Requests uint64  `json:"requests"`
		P95      float64 `json:"p95,omitempty"` // seconds; of groups only
	}
)
