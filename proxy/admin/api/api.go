// Package api defines the documents of the admin API. The code that makes them is elsewhere, because
// the doctor and the master use the same types as the proxy. Drift compares the documents of several
// instances.
//
// The doctor merges the documents of several instances into one. The struct tag fleet says how to merge a
// field. Numbers without a tag are added up. "max", "min" and "mean X" take the maximum, the minimum, or the
// mean weighted by the field X. Rows with equal fields of the tag "key" become one row. "by CPU" puts rows with
// the highest CPU first, and "by -At" rows with the lowest At.
package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/spool"
)

// Version is the "version" of every document. It grows when a field changes its meaning or is removed. New
// fields don't change it.
const Version = 1

// The documents of the admin API.
type (
	// ErrorReply is the answer to a request that failed.
	ErrorReply struct {
		Version int    `json:"version"`
		Error   string `json:"error"`
	}
	// OKReply answers GET /v1/health: the process is alive.
	OKReply struct {
		Version int    `json:"version"`
		Status  string `json:"status"` // "ok"
	}
	// ReadyReply answers GET /v1/ready with 200 while this proxy takes requests. While it drains, the answer is 503
	// with an ErrorReply. A backend that is down isn't a reason for 503, because a load balancer would then remove
	// every proxy in front of that backend at the same time, and visitors would get no page that explains the
	// failure. To probe the site, request one of its pages. Status and Conditions show the other problems.
	ReadyReply struct {
		Version    int         `json:"version"`
		Status     string      `json:"status"`     // "ok"; or "degraded": it takes requests, but visitors get errors
		Conditions []Condition `json:"conditions"` // what is wrong now, the worst first; empty: nothing
	}
	// ReloadReply answers POST /v1/reload.
	ReloadReply struct {
		Version int      `json:"version"`
		Status  string   `json:"status"`  // "ok"
		Restart []string `json:"restart"` // keys whose changes need a restart
	}
	// AccessReply answers GET /v1/access. This request needs no token.
	AccessReply struct {
		Version int  `json:"version"`
		Token   bool `json:"token"` // whether all other requests need a token
	}
	// ClassesReply answers GET /v1/classes.
	ClassesReply struct {
		Version int          `json:"version" fleet:"max"`
		Classes []ClassReply `json:"classes"` // classes in configured order
	}
	// ClassReply is one class, with the CPU time that each of its keys may use.
	ClassReply struct {
		Name   string  `json:"name" fleet:"key"`
		CPUs   float64 `json:"cpus" fleet:"max"`  // CPU-seconds earned per second
		Burst  float64 `json:"burst" fleet:"max"` // largest number of CPU-seconds saved up
		Cap    bool    `json:"cap"`
		Shadow bool    `json:"shadow"`
		Keys   int     `json:"keys" fleet:"max"` // number of keys that are remembered at this moment
	}
	// BucketsReply answers GET /v1/buckets.
	BucketsReply struct {
		Version int           `json:"version" fleet:"max"`
		Class   string        `json:"class"` // name of the class; empty: all classes
		Sort    string        `json:"sort"`
		Total   int           `json:"total" fleet:"max"` // total number of keys; Rows has the first of them
		Rows    []limiter.Row `json:"rows"`
	}
	// KeyReply answers GET /v1/key.
	KeyReply struct {
		Version int         `json:"version" fleet:"max"`
		Row     limiter.Row `json:"row"`
	}
	// GateReply answers GET /v1/gate: the state of the queue in front of the backend.
	GateReply struct {
		Version int `json:"version"`
		limiter.GateState
		Kernel *Kernel `json:"kernel,omitempty"` // nil: nothing is known
	}

	// ShareReply answers GET /v1/share: how this instance shares accounts with others.
	ShareReply struct {
		Version int    `json:"version"`
		Kind    string `json:"kind"` // coordination.kind: none, smockron, …
		// Trouble says why accounts aren't shared although they should be.
		Trouble string `json:"trouble,omitempty"`
		State   any    `json:"state,omitempty"` // state, in a format that depends on Kind
		Known   any    `json:"known,omitempty"` // how known clients are shared; only with coordination.secret
		// Instances are the other instances that reported in the last hour; only with coordination.secret.
		Instances []Instance `json:"instances,omitempty"`
		// Lines are for the dashboard of several instances. Only the doctor sets them.
		Lines []HealthLine `json:"lines,omitempty"`
	}
	// HealthLine is a line of the dashboard's panel Health.
	HealthLine struct {
		Name string `json:"name"`
		Well bool   `json:"well"`
		Text string `json:"text"`
	}

	// Certificate is a certificate that the proxy presents to clients.
	Certificate struct {
		File    string    `json:"file"`             // path of the file, or the host if the certificate came through ACME
		Expires time.Time `json:"expires,omitzero"` // when the certificate expires; zero: there is none yet
		Fault   string    `json:"fault,omitempty"`  // why the current content of the file isn't used
	}

	// StatusReply answers GET /v1/status.
	StatusReply struct {
		Version     int               `json:"version"`
		Release     string            `json:"release"`
		Uptime      float64           `json:"uptime"` // seconds since the start
		Mode        string            `json:"mode"`
		Held        int               `json:"held"` // requests held at this moment
		Buffer      spool.Stats       `json:"buffer"`
		Connections connlimit.Stats   `json:"connections"`
		Goroutines  int               `json:"goroutines"`
		Counters    map[string]uint64 `json:"counters"` // totals since the start
		// Certificates are the certificates that TLS listeners use.
		Certificates []Certificate `json:"certificates,omitempty"`
		Conditions   []Condition   `json:"conditions"` // what is wrong now, the worst first; empty: nothing
		Instance     Instance      `json:"instance"`
	}
)

// Instance describes an instance, with the settings that must be the same in all instances that share
// accounts.
type Instance struct {
	Name    string            `json:"name"`            // the name of its host
	Socket  string            `json:"socket"`          // its admin.listen on that host
	Admin   string            `json:"admin,omitempty"` // the URL of its admin.web, if other machines can reach it
	Release string            `json:"release"`
	Mode    string            `json:"mode"`
	Sharing string            `json:"sharing"` // coordination.kind
	Secret  string            `json:"secret"`  // the fingerprint of coordination.secret; empty: there is none
	Classes map[string]string `json:"classes"` // the share and burst of each class, in words
	Now     float64           `json:"now"`     // the time by its clock, Unix time in seconds
	Ahead   float64           `json:"-"`       // how far its clock is ahead of the comparing instance's, in seconds
}

// mostSkew is the largest difference between clocks, in seconds, that is not reported. It must be more than a
// second, because an answer may take that long to arrive.
const mostSkew = 2

// Names lists up to three instances, and counts the others.
func Names(all []string) string {
	if len(all) > 3 {
		return fmt.Sprintf("%d instances", len(all))
	}
	return strings.Join(all, ", ")
}

// DriftCondition is the name of the conditions that Drift returns.
const DriftCondition = "drift"

// Drift returns the settings in which instances differ but must agree. Both the doctor and the proxy use
// it.
func Drift(all []Instance) (drift []Condition) {
	differ := func(what, do string) {
		drift = append(drift, Condition{Name: DriftCondition, What: "Instances differ in " + what, Do: do})
	}
	compare := func(of, do string, value func(*Instance) string) {
		names := make(map[string][]string) // names of the instances with each value
		for i := range all {
			has := cmp.Or(value(&all[i]), "none")
			names[has] = append(names[has], all[i].Name)
		}
		if len(names) < 2 {
			return
		}
		groups := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(names[a]), len(names[b])), strings.Compare(a, b))
		})
		for i, has := range groups { // the smallest group first, because it is most likely wrong
			slices.Sort(names[has])
			groups[i] = Names(names[has]) + ": " + has
		}
		differ(of+": "+strings.Join(groups, "; ")+".", do)
	}
	compare("the release", "Install the same release on all instances.", func(i *Instance) string { return i.Release })
	compare("throttle.mode", "Set the same mode on all instances.", func(i *Instance) string { return i.Mode })
	compare("coordination.kind", "Set the same kind on all instances, and restart them.", func(i *Instance) string { return i.Sharing })
	compare("the shared secret, by its fingerprint", "Copy the secret's file from one instance to all others.", func(i *Instance) string { return i.Secret })
	classes := make(map[string]bool)
	for i := range all {
		for name := range all[i].Classes {
			classes[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		compare("the class "+name, "Configure the same classes on all instances: each instance counts the others' debts by its own shares.", func(i *Instance) string { return i.Classes[name] })
	}
	ahead := func(a, b Instance) int { return cmp.Compare(a.Ahead, b.Ahead) }
	if len(all) > 0 {
		if first, last := slices.MaxFunc(all, ahead), slices.MinFunc(all, ahead); first.Ahead-last.Ahead > mostSkew {
			differ(fmt.Sprintf("their clocks: %s is %.0f s ahead of %s.", first.Name, first.Ahead-last.Ahead, last.Name), "Run NTP on all instances.")
		}
	}
	return drift
}

// WorstFirst sorts conditions. Those that affect visitors come first.
func WorstFirst(all []Condition) {
	slices.SortStableFunc(all, func(a, b Condition) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
}

// Kernel shows how the kernel helps: it measures the costs of requests, and gives CPU time to short requests
// first. All times are in seconds.
type (
	Kernel struct {
		// Seconds is the time that Costs cover, about a minute. 0 means that nothing is known yet.
		Seconds float64 `json:"seconds"`
		// Costs always has all sources: process, database, header and estimate.
		Costs []CostRow `json:"costs"`
		// Steps reports whether the proxy may lower the priority of processes.
		Steps   bool      `json:"steps"`
		Lowered int       `json:"lowered"` // number of processes with a lower priority now
		Stepped []StepRow `json:"stepped"` // since the start, the smallest first
		// Missing lists the requirements of exact costs and of priorities that aren't met. It may be empty.
		Missing []MissingRow `json:"missing"`
	}
	// CostRow is the cost of requests that ended recently, by its source: process (their workers' CPU time,
	// as the kernel counts it), database (their share of a database's CPU time), header (the backend sent
	// it), or estimate (their duration, corrected by how busy the CPUs were).
	CostRow struct {
		Source string  `json:"source"`
		CPU    float64 `json:"cpu"` // used CPU time in seconds
		// Requests counts each request once, at the source of most of its cost. Requests with a cost from a
		// database count at process.
		Requests uint64 `json:"requests"`
	}
	// StepRow counts how often the priority of a process was lowered.
	StepRow struct {
		Below int    `json:"below"` // nice values below the process's own priority: 5, 10, and 20, which is idle
		Steps uint64 `json:"steps"`
	}
	// MissingRow is a requirement of exact costs or of priorities that isn't met.
	MissingRow struct {
		For    string `json:"for"`    // feature that needs it: costs or priority
		What   string `json:"what"`   // what is missing, in plain words
		Remedy string `json:"remedy"` // what to do, and the page of the manual about it; empty: unknown
	}
)

// The documents of single clients, pages and requests.
type (
	// ExplainReply answers GET /v1/explain. The parameter "of" is an address, a network, a User-Agent, a path,
	// a URL or a request's id, and the reply has everything that is known about it.
	ExplainReply struct {
		Version int    `json:"version"`
		Of      string `json:"of"`   // the question, unchanged
		Kind    string `json:"kind"` // address, network, agent, page or request
		// Summary says in one sentence what happens to the client, page or request at this moment, and why.
		Summary  string           `json:"summary"`
		Sections []ExplainSection `json:"sections"`
		// Advice says what would change the situation. Each element is one sentence.
		Advice  []string     `json:"advice"`
		Waits   int          `json:"waits"`   // number of waiting requests
		Waiting []WaiterRow  `json:"waiting"` // the first waiting requests
		Recent  []VerdictRow `json:"recent"`  // last requests that failed or waited long; similar requests share a row
	}
	// ExplainSection is a list of facts with a heading.
	ExplainSection struct {
		Title string        `json:"title"`
		Facts []ExplainFact `json:"facts"`
	}
	// ExplainFact is one fact: a name, a value with its unit, and the meaning of the value.
	ExplainFact struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		Means string `json:"means"` // meaning of the value, in one sentence; may be empty
	}

	// ActRequest is the body of POST /v1/forgive and POST /v1/pin.
	ActRequest struct {
		Class string `json:"class"` // name of the class
		Key   string `json:"key"`
		// Seconds is how long a pin is valid, up to a week. It must be 0 for forgive.
		Seconds float64 `json:"seconds,omitempty"`
		// Standing is the factor for the client's share, 0.5 to 8; 0 removes the pin.
		Standing float64 `json:"standing,omitempty"`
	}
	// ActReply answers POST /v1/forgive and POST /v1/pin.
	ActReply struct {
		Version int    `json:"version"`
		Done    string `json:"done"` // one sentence that says what was done
	}
	// PinsReply answers GET /v1/pins.
	PinsReply struct {
		Version int      `json:"version" fleet:"max"`
		Pins    []PinRow `json:"pins"`
	}
	// PinRow is a client with a standing set by hand.
	PinRow struct {
		Class    string  `json:"class" fleet:"key"`
		Key      string  `json:"key" fleet:"key"`
		Standing float64 `json:"standing" fleet:"key"`
		Left     float64 `json:"left" fleet:"max"`   // seconds until the pin ends
		Instance string  `json:"instance,omitempty"` // instance that has the pin; set by the doctor
	}
)
