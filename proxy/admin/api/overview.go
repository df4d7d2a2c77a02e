package api

import "tempomat/limiter"

// Groups is how many groups there are: known, newcomers, strangers, robots, exempt, always
// all and in this order.
const Groups = 5

// The documents of what goes on. All times of the clock are Unix times in seconds, all
// durations seconds, all CPU use CPU-seconds per second; rates are of the last Seconds. Texts
// that clients chose (URLs, shapes, keys) are unchanged, at most 512 bytes: programs that show
// them must make them harmless.
type (
	// OverviewReply answers GET /v1/overview: which clients use the server at this moment.
	OverviewReply struct {
		Conditions []Condition       `json:"conditions" fleet:"by Bad"` // what is wrong now, the worst first; empty: nothing
		Backend    BackendRow        `json:"backend"`
		Estimated  float64           `json:"estimated" fleet:"mean CPU"` // part of CPU that is estimated from the time that requests took, 0 to 1; the rest was measured
		Places     []PlaceRow        `json:"places" fleet:"by Count"`    // what the requests at the backend are for, the most first; at most 5
		Version    int               `json:"version" fleet:"max"`
		Now        float64           `json:"now" fleet:"max"`
		Seconds    float64           `json:"seconds" fleet:"max"` // that rates are of
		Release    string            `json:"release"`
		Mode       string            `json:"mode"`
		Uptime     float64           `json:"uptime" fleet:"min"`
		CPUs       float64           `json:"cpus"`                  // that the backend has
		CPU        float64           `json:"cpu"`                   // what requests used, all together: never more than Use
		Wasted     float64           `json:"wasted"`                // of that, for clients that had left
		Use        float64           `json:"use" fleet:"mean CPUs"` // of the CPUs, by all that runs there, as measured in the same Seconds, 0 to 1; negative: it was not
		Groups     []GroupRow        `json:"groups"`                // always all, in the order of Groups
		Strangers  StrangersRow      `json:"strangers"`             // strangers and newcomers, all together
		Gate       limiter.GateState `json:"gate"`
		Sampled    float64           `json:"sampled" fleet:"min"` // part of the requests that shapes, networks and percentiles are made of, above 0 to 1
	}
	// Condition is something that is wrong at this moment.
	Condition struct {
		Name string `json:"name"` // backend-down, … as package inspect has them
		Bad  bool   `json:"bad"`  // visitors feel it now; otherwise they will, or something works less well
		What string `json:"what"` // in a sentence
		Do   string `json:"do"`   // what to do about it, in a sentence
	}
	// BackendRow is how the requests ended in the last Seconds that came to the backend and whose
	// client stayed.
	BackendRow struct {
		Seconds  float64 `json:"seconds" fleet:"max"` // 10; 60 if there were none in the last 10
		Requests int     `json:"requests"`            // all of them
		Down     int     `json:"down"`                // got no connection, or no answer on it: 502
		Slow     int     `json:"slow"`                // got no answer in time: 504
		Broke    int     `json:"broke"`               // got an answer that broke off
		Errors   int     `json:"errors"`              // got an answer with a status of 500 or more
	}
	// PlaceRow is how many requests of a group are at the backend for a page.
	PlaceRow struct {
		Group string `json:"group" fleet:"key"`
		Shape string `json:"shape" fleet:"key"`
		Count int    `json:"count"`
	}
	// GroupRow is one group.
	GroupRow struct {
		Name       string  `json:"name" fleet:"key"`
		CPU        float64 `json:"cpu"`
		Rate       float64 `json:"rate"`            // requests per second that ended, those refused and redirected among them
		P50        float64 `json:"p50" fleet:"max"` // of the time from request to answer; 0: there were none
		P95        float64 `json:"p95" fleet:"max"`
		Refused    float64 `json:"refused"`             // requests per second
		Redirected float64 `json:"redirected"`          // requests per second
		Waiting    int     `json:"waiting"`             // at this moment
		Longest    float64 `json:"longest" fleet:"max"` // for how long the first of them has waited
	}
	// StrangersRow is all strangers together; each alone may be too small to be seen.
	StrangersRow struct {
		Addresses int     `json:"addresses" fleet:"max"` // about, in the last Seconds
		CPU       float64 `json:"cpu"`
		Waiting   int     `json:"waiting"`
		Longest   float64 `json:"longest" fleet:"max"`
	}

	// ShapesReply answers GET /v1/shapes (limit): which pages the CPU goes to, most expensive first.
	ShapesReply struct {
		Version int        `json:"version" fleet:"max"`
		Seconds float64    `json:"seconds" fleet:"max"`
		Rows    []ShapeRow `json:"rows" fleet:"by CPU"`
	}
	// ShapeRow is all pages of one shape: their path, and the names of their parameters.
	ShapeRow struct {
		Shape      string             `json:"shape" fleet:"key"`
		CPU        float64            `json:"cpu"`
		Rate       float64            `json:"rate"`                      // requests per second that ended, those refused and redirected among them
		Mean       float64            `json:"mean" fleet:"mean Rate"`    // CPU-seconds of a request that the backend worked on; 0: none ended recently
		Groups     map[string]float64 `json:"groups"`                    // CPU by group
		Addresses  int                `json:"addresses" fleet:"max"`     // about
		Parameters []PartRow          `json:"parameters" fleet:"by CPU"` // name=value, the most expensive first
		Networks   []PartRow          `json:"networks" fleet:"by CPU"`   // networks that ask, the most expensive first: /16, IPv6: /32
	}
	// PartRow is what a part of something costs.
	PartRow struct {
		Name string  `json:"name" fleet:"key"`
		CPU  float64 `json:"cpu"`
		Rate float64 `json:"rate"` // as of the shape
		Mean float64 `json:"mean" fleet:"mean Rate"`
	}

	// QueueReply answers GET /v1/queue (limit): the waiting requests, the longest wait first.
	QueueReply struct {
		Version int         `json:"version" fleet:"max"`
		Total   int         `json:"total"` // that wait; Rows has the first of them
		Rows    []WaiterRow `json:"rows" fleet:"by Age"`
	}
	// WaiterRow is a request that waits.
	WaiterRow struct {
		Instance string `json:"instance,omitempty"` // where it waits: the doctor fills it in if it asks several

		Client string  `json:"client"` // its address
		Group  string  `json:"group"`
		Agent  string  `json:"agent"` // the family of its User-Agent
		Method string  `json:"method"`
		Host   string  `json:"host"`
		URL    string  `json:"url"`    // target, at most 512 bytes
		Shape  string  `json:"shape"`  // of it
		Age    float64 `json:"age"`    // for how long it has waited
		Guess  float64 `json:"guess"`  // CPU-seconds that it will likely cost
		Sure   bool    `json:"sure"`   // the guess rests on answers
		Before int     `json:"before"` // how many go before it, as of now; -1: unknown
		Why    string  `json:"why"`    // it waits, in plain words
	}

	// RecentReply answers GET /v1/recent (limit, each): the last requests that were refused,
	// redirected, failed, or waited for long, the newest first; those that ended alike as one row,
	// unless each of them is asked for (each=true).
	RecentReply struct {
		Version int          `json:"version" fleet:"max"`
		Rows    []VerdictRow `json:"rows" fleet:"by At"`
	}
	// VerdictRow is what became of a request.
	VerdictRow struct {
		Instance string `json:"instance,omitempty"` // as of WaiterRow

		At      float64 `json:"at"`
		ID      string  `json:"id"` // that its client was told; empty: none
		Client  string  `json:"client"`
		Group   string  `json:"group"`
		Agent   string  `json:"agent"`
		Method  string  `json:"method"`
		Host    string  `json:"host"`
		URL     string  `json:"url"`
		Shape   string  `json:"shape"`
		Status  int     `json:"status"`
		Outcome string  `json:"outcome"`
		Reason  string  `json:"reason"` // none, debt, client full, server full, busy, newcomer (it waited for room and was redirected), or limit NAME
		Class   string  `json:"class"`  // class whose debt it was; empty: none
		Key     string  `json:"key"`
		Waited  float64 `json:"waited"`
		Cost    float64 `json:"cost"`
		Guess   float64 `json:"guess"`
		Shadow  bool    `json:"shadow"`  // it would have been, and was not
		Times   int     `json:"times"`   // how many similar ones this row stands for; it is the last
		Clients int     `json:"clients"` // from how many addresses these came
	}

	// SeriesReply answers GET /v1/series (minutes: 5, 60 or 1440): what the header of the
	// overview was, at steps of 1, 10 or 60 s, the oldest first.
	SeriesReply struct {
		Version int     `json:"version" fleet:"max"`
		Step    float64 `json:"step" fleet:"max"` // from one point to the next
		Points  []Point `json:"points" fleet:"by -At"`
	}
	// Point is what the last 10 s were, or the last 60 where a step is as long. Waiting,
	// Longest and Busy are the worst of the step, as seen each second, Use is the mean. Its
	// arrays go by group.
	Point struct {
		At         float64         `json:"at" fleet:"key"`
		CPU        [Groups]float64 `json:"cpu"`
		Rate       [Groups]float64 `json:"rate"`
		P50        [Groups]float64 `json:"p50" fleet:"max"`
		P95        [Groups]float64 `json:"p95" fleet:"max"`
		Waiting    [Groups]int     `json:"waiting"`
		Longest    float64         `json:"longest" fleet:"max"`
		Refused    float64         `json:"refused"`    // requests per second
		Redirected float64         `json:"redirected"` // requests per second
		Wasted     float64         `json:"wasted"`
		Use        float64         `json:"use" fleet:"max"` // of the CPUs as measured, 0 to 1; negative: never
		Busy       int             `json:"busy"`            // requests at the backend
		Workers    int             `json:"workers"`         // that it has
		Room       int             `json:"room"`            // requests of a size that may compute at a time
	}
)

// The documents of what was: GET /v1/history (hours: 1 to 168) answers HistoryReply, the
// requests of the last hours, in whole hours of UTC.
type (
	// HistoryReply is some hours, the oldest first. Hours in which the proxy did not run are
	// not among them. The last one still runs.
	HistoryReply struct {
		Version int       `json:"version" fleet:"max"`
		Since   float64   `json:"since" fleet:"min"` // when the history began, Unix time in seconds
		Hours   []HourRow `json:"hours" fleet:"by -At"`
	}
	// HourRow is an hour.
	HourRow struct {
		At         float64        `json:"at" fleet:"key"` // its beginning, Unix time in seconds
		Requests   uint64         `json:"requests"`
		CPU        float64        `json:"cpu"`    // CPU-seconds
		Wasted     float64        `json:"wasted"` // of that, for clients that had left
		Refused    uint64         `json:"refused"`
		Redirected uint64         `json:"redirected"`
		Groups     []HistoryPart  `json:"groups"`  // known, newcomers, strangers, robots, exempt
		Classes    []HistoryClass `json:"classes"` // in configured order
		Shapes     []HistoryPart  `json:"shapes"`  // of pages, the most expensive first; at most 50
		URLs       []HistoryPart  `json:"urls"`    // paths with the values of their parameters, the most expensive first; at most 50; * for what few requested
	}
	// HistoryClass is the keys of a class that cost most.
	HistoryClass struct {
		Class string        `json:"class" fleet:"key"`
		Keys  []HistoryPart `json:"keys"` // the most expensive first; at most 50
	}
	// HistoryPart is a part of an hour. CPU is too high by at most Error, because only a
	// limited number of parts is counted. The order is by the certain part, CPU minus Error.
	HistoryPart struct {
		Name     string  `json:"name" fleet:"key"`
		CPU      float64 `json:"cpu"` // CPU-seconds
		Error    float64 `json:"error,omitempty"`
		Requests uint64  `json:"requests"`
		P95      float64 `json:"p95,omitempty" fleet:"max"` // seconds; of groups only
	}
)
