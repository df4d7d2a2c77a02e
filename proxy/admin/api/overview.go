package api

import "tempomat/limiter"

// These documents describe the present. Points in time are Unix times in seconds, durations are in seconds, and
// CPU use is in CPU-seconds per second. Rates are averages over the last Seconds. Texts that clients chose
// (URLs, shapes, keys) are unchanged and have at most 512 bytes. Programs that show them must escape them.
type (
	// OverviewReply answers GET /v1/overview: which clients use the server now.
	OverviewReply struct {
		Conditions []Condition       `json:"conditions" fleet:"by Bad"` // problems, the worst first; empty: nothing is wrong
		Backend    BackendRow        `json:"backend"`
		Estimated  float64           `json:"estimated" fleet:"mean CPU"` // part of CPU, 0 to 1, that is estimated from durations instead of measured
		Places     []PlaceRow        `json:"places" fleet:"by Count"`    // at most 5 pages with the most requests at the backend
		Version    int               `json:"version" fleet:"max"`
		Now        float64           `json:"now" fleet:"max"`
		Seconds    float64           `json:"seconds" fleet:"max"` // time in seconds over which rates are averaged
		Release    string            `json:"release"`
		Mode       string            `json:"mode"`
		Uptime     float64           `json:"uptime" fleet:"min"`
		CPUs       float64           `json:"cpus"`                  // number of CPUs of the backend
		CPU        float64           `json:"cpu"`                   // CPU use of all requests together, never more than Use
		Wasted     float64           `json:"wasted"`                // part of CPU spent for clients that had disconnected
		Use        float64           `json:"use" fleet:"mean CPUs"` // CPU use of all programs in the same Seconds, 0 to 1, without niced programs that aren't the backend's; negative: not measured
		Groups     []GroupRow        `json:"groups"`                // in this order: known, newcomers, strangers, robots, exempt
		Strangers  StrangersRow      `json:"strangers"`             // sums of all strangers and newcomers
		Gate       limiter.GateState `json:"gate"`
		Sampled    float64           `json:"sampled" fleet:"min"` // part of the requests, above 0 to 1, on which shapes, networks and percentiles are based
	}
	// Condition is a current problem.
	Condition struct {
		Name string `json:"name"` // such as backend-down; package inspect lists all names
		Bad  bool   `json:"bad"`  // whether it affects visitors now
		What string `json:"what"` // what is wrong, in one sentence
		Do   string `json:"do"`   // what to do about it, in one sentence
	}
	// BackendRow counts how requests ended at the backend in the last Seconds. It leaves out requests whose
	// clients disconnected.
	BackendRow struct {
		Seconds  float64 `json:"seconds" fleet:"max"` // 10, or 60 if no request ended in the last 10 s
		Requests int     `json:"requests"`            // total number of these requests
		Down     int     `json:"down"`                // requests that got no connection or no answer (502)
		Slow     int     `json:"slow"`                // requests that got no answer in time (504)
		Broke    int     `json:"broke"`               // requests whose answer the backend ended too early
		Errors   int     `json:"errors"`              // requests that the backend answered with a status of 500 or more
	}
	// PlaceRow counts a group's requests for one page that are at the backend.
	PlaceRow struct {
		Group string `json:"group" fleet:"key"`
		Shape string `json:"shape" fleet:"key"`
		Count int    `json:"count"`
	}
	// GroupRow describes the requests of one group of clients.
	GroupRow struct {
		Name       string  `json:"name" fleet:"key"`
		CPU        float64 `json:"cpu"`
		Rate       float64 `json:"rate"`            // requests per second that ended, even if refused or redirected
		P50        float64 `json:"p50" fleet:"max"` // median response time in seconds; 0: no request ended
		P95        float64 `json:"p95" fleet:"max"`
		Refused    float64 `json:"refused"`             // requests per second
		Redirected float64 `json:"redirected"`          // requests per second
		Waiting    int     `json:"waiting"`             // requests that wait now
		Longest    float64 `json:"longest" fleet:"max"` // how long the oldest waiting request has waited, in seconds
	}
	// StrangersRow adds up all strangers, because each of them may use too little to appear in a table.
	StrangersRow struct {
		Addresses int     `json:"addresses" fleet:"max"` // estimated number of addresses in the last Seconds
		CPU       float64 `json:"cpu"`
		Waiting   int     `json:"waiting"`
		Longest   float64 `json:"longest" fleet:"max"`
	}

	// ShapesReply answers GET /v1/shapes (limit): the pages that use the CPU, the most expensive first.
	ShapesReply struct {
		Version int        `json:"version" fleet:"max"`
		Seconds float64    `json:"seconds" fleet:"max"`
		Rows    []ShapeRow `json:"rows" fleet:"by CPU"`
	}
	// ShapeRow is all pages of one shape: their path, and the names of their parameters.
	ShapeRow struct {
		Shape      string             `json:"shape" fleet:"key"`
		CPU        float64            `json:"cpu"`
		Rate       float64            `json:"rate"`                      // requests per second that ended, even if refused or redirected
		Mean       float64            `json:"mean" fleet:"mean Rate"`    // average CPU-seconds of requests that reached the backend; 0: none ended recently
		Groups     map[string]float64 `json:"groups"`                    // CPU use of each group
		Addresses  int                `json:"addresses" fleet:"max"`     // estimated number of addresses
		Parameters []PartRow          `json:"parameters" fleet:"by CPU"` // parameters as name=value, the most expensive first
		Networks   []PartRow          `json:"networks" fleet:"by CPU"`   // networks of the clients (/16 or IPv6 /32), the most expensive first
	}
	// PartRow is a part of a page's cost.
	PartRow struct {
		Name string  `json:"name" fleet:"key"`
		CPU  float64 `json:"cpu"`
		Rate float64 `json:"rate"` // ended requests per second
		Mean float64 `json:"mean" fleet:"mean Rate"`
	}

	// QueueReply answers GET /v1/queue (limit): the waiting requests, the longest wait first.
	QueueReply struct {
		Version int         `json:"version" fleet:"max"`
		Total   int         `json:"total"` // total number of waiting requests; Rows has the first ones
		Rows    []WaiterRow `json:"rows" fleet:"by Age"`
	}
	// WaiterRow is a request that waits.
	WaiterRow struct {
		Instance string `json:"instance,omitempty"` // instance where the request waits; set if the doctor asks several

		Client string  `json:"client"` // address of the client
		Group  string  `json:"group"`
		Agent  string  `json:"agent"` // family of the client's User-Agent
		Method string  `json:"method"`
		Host   string  `json:"host"`
		URL    string  `json:"url"`    // first 512 bytes of the target
		Shape  string  `json:"shape"`  // shape of the URL
		Age    float64 `json:"age"`    // seconds that the request has waited
		Guess  float64 `json:"guess"`  // likely cost in CPU-seconds
		Sure   bool    `json:"sure"`   // whether the guess is based on answers to similar requests
		Before int     `json:"before"` // number of requests that go before this one; -1: unknown
		Why    string  `json:"why"`    // why the request waits, in plain words
	}

	// RecentReply answers GET /v1/recent (limit): the last requests that were rejected or redirected, that
	// failed, or that waited for long, the newest first. Similar requests share a row.
	RecentReply struct {
		Version int          `json:"version" fleet:"max"`
		Rows    []VerdictRow `json:"rows" fleet:"by At"`
	}
	// VerdictRow is a request that ended, or the last of several similar ones.
	VerdictRow struct {
		Instance string `json:"instance,omitempty"` // instance that answered the request, as in WaiterRow

		At      float64 `json:"at"`
		ID      string  `json:"id"` // id that the client got for the request; empty: none
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
		Class   string  `json:"class"`  // class of the key in debt; empty: no debt was involved
		Key     string  `json:"key"`
		Waited  float64 `json:"waited"`
		Cost    float64 `json:"cost"`
		Guess   float64 `json:"guess"`
		Shadow  bool    `json:"shadow"`  // shadow mode: the decision had no effect, and the request ran at once
		Times   int     `json:"times"`   // number of similar requests in this row
		Clients int     `json:"clients"` // number of addresses that sent them
	}
)

// These documents describe the past: GET /v1/history (hours: 1 to 168) answers with a HistoryReply, which has
// the requests of the last hours, in whole hours of UTC.
type (
	// HistoryReply lists hours, the oldest first. The last hour isn't over yet. Hours in which the proxy didn't
	// run are left out.
	HistoryReply struct {
		Version int       `json:"version" fleet:"max"`
		Hours   []HourRow `json:"hours" fleet:"by -At"`
	}
	// HourRow describes the requests of one hour.
	HourRow struct {
		At         float64        `json:"at" fleet:"key"` // when the hour began, in Unix time
		Requests   uint64         `json:"requests"`
		CPU        float64        `json:"cpu"`    // CPU-seconds
		Wasted     float64        `json:"wasted"` // part of CPU spent for clients that had disconnected
		Refused    uint64         `json:"refused"`
		Redirected uint64         `json:"redirected"`
		Shadowed   uint64         `json:"shadowed,omitempty"` // requests that shadow mode would have delayed or refused
		Groups     []HistoryPart  `json:"groups"`             // in this order: known, newcomers, strangers, robots, exempt
		Classes    []HistoryClass `json:"classes"`            // classes in configured order
		Shapes     []HistoryPart  `json:"shapes"`             // at most 50 shapes of pages, the most expensive first
		URLs       []HistoryPart  `json:"urls"`               // paths with the values of their parameters, the most expensive first; at most 50. A * replaces parts that few clients requested
	}
	// HistoryClass has the most expensive keys of a class.
	HistoryClass struct {
		Class string        `json:"class" fleet:"key"`
		Keys  []HistoryPart `json:"keys"` // at most 50 keys, the most expensive first
	}
	// HistoryPart is a part of an hour. Only a limited number of parts is counted, so CPU may be too high, by
	// at most Error. The parts are sorted by the certain cost, CPU minus Error.
	HistoryPart struct {
		Name     string  `json:"name" fleet:"key"`
		CPU      float64 `json:"cpu"` // CPU-seconds
		Error    float64 `json:"error,omitempty"`
		Requests uint64  `json:"requests"`
		P95      float64 `json:"p95,omitempty" fleet:"max"` // 95th percentile of response times, in seconds; groups only
	}
)
