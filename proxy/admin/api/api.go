// Package api is what the admin API answers: the documents, and nothing that makes them. Drift tells what
// is wrong with them only next to those of other instances.
// The doctor and the master share them with the proxy.
//
// The tag fleet says how the documents of several instances become one. Numbers are added up, or it is
// their max, their min, or their mean by the weight of another field. Rows whose fields tagged key are
// equal become one row. By CPU: the rows with the greatest CPU come first; by -At: last.
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

// Version is the "version" of every document. It grows when a field changes its meaning
// or goes; new fields leave it as it is.
const Version = 1

// The documents of the admin API.
type (
	// ErrorReply is the answer to whatever did not work.
	ErrorReply struct {
		Version int    `json:"version"`
		Error   string `json:"error"`
	}
	// OKReply answers health: the process answers.
	OKReply struct {
		Version int    `json:"version"`
		Status  string `json:"status"` // "ok"
	}
	// ReadyReply answers ready with 200 while this proxy takes requests, and with 503 and an
	// ErrorReply while it drains. That the backend is down is no reason for 503: a balancer would
	// take every proxy in front of that backend away at the same time, and visitors would get
	// nothing instead of a page that says what happens. To probe the site, request one of its
	// pages. Status and Conditions show that 200 does not mean more than that.
	ReadyReply struct {
		Version    int         `json:"version"`
		Status     string      `json:"status"`     // "ok"; "degraded": it takes requests, and visitors get errors
		Conditions []Condition `json:"conditions"` // what is wrong now, the worst first; empty: nothing
	}
	// ReloadReply answers POST /v1/reload.
	ReloadReply struct {
		Version int      `json:"version"`
		Status  string   `json:"status"`  // "ok"
		Restart []string `json:"restart"` // keys that differ from what the proxy began with, and wait for a restart
	}
	// AccessReply answers GET /v1/access, also without a token.
	AccessReply struct {
		Version int  `json:"version"`
		Token   bool `json:"token"` // everything else needs one
	}
	// ClassesReply answers GET /v1/classes.
	ClassesReply struct {
		Version int          `json:"version" fleet:"max"`
		Classes []ClassReply `json:"classes"` // in configured order
	}
	// ClassReply is one class and what each of its keys may use.
	ClassReply struct {
		Name   string  `json:"name" fleet:"key"`
		CPUs   float64 `json:"cpus" fleet:"max"`  // CPU-seconds earned per second
		Burst  float64 `json:"burst" fleet:"max"` // most CPU-seconds saved up
		Cap    bool    `json:"cap"`
		Shadow bool    `json:"shadow"`
		Keys   int     `json:"keys" fleet:"max"` // keys remembered at this moment
	}
	// BucketsReply answers GET /v1/buckets.
	BucketsReply struct {
		Version int           `json:"version" fleet:"max"`
		Class   string        `json:"class"` // as configured; "": all
		Sort    string        `json:"sort"`
		Total   int           `json:"total" fleet:"max"` // keys that there are; Rows has the first of them
		Rows    []limiter.Row `json:"rows"`
	}
	// KeyReply answers GET /v1/key.
	KeyReply struct {
		Version int         `json:"version" fleet:"max"`
		Row     limiter.Row `json:"row"`
	}
	// GateReply answers GET /v1/gate: how the queue before the backend stands.
	GateReply struct {
		Version int `json:"version"`
		limiter.GateState
		Kernel *Kernel `json:"kernel,omitempty"` // nil: nothing is told of it
	}

	// ShareReply answers GET /v1/share: how the sidecar shares its accounts.
	ShareReply struct {
		Version int    `json:"version"`
		Kind    string `json:"kind"` // as configured: none, smockron, …
		// Trouble is why nothing is shared, though it should be.
		Trouble string `json:"trouble,omitempty"`
		State   any    `json:"state,omitempty"` // of that kind
		Known   any    `json:"known,omitempty"` // with coordination.secret: how known clients are shared
		// Instances are the others that were heard in the last hour, with coordination.secret.
		Instances []Instance `json:"instances,omitempty"`
	}

	// Certificate is one that clients are shown.
	Certificate struct {
		File    string    `json:"file"`             // or its host, if it came by ACME
		Expires time.Time `json:"expires,omitzero"` // zero: there is none
		Fault   string    `json:"fault,omitempty"`  // why what the file has now is not in force
	}

	// StatusReply answers GET /v1/status.
	StatusReply struct {
		Version     int               `json:"version"`
		Release     string            `json:"release"`
		Uptime      float64           `json:"uptime"` // seconds
		Mode        string            `json:"mode"`
		Held        int               `json:"held"` // requests held at this moment
		Buffer      spool.Stats       `json:"buffer"`
		Connections connlimit.Stats   `json:"connections"`
		Goroutines  int               `json:"goroutines"`
		Counters    map[string]uint64 `json:"counters"` // totals since the start
		// Certificates are those of TLS.
		Certificates []Certificate `json:"certificates,omitempty"`
		Conditions   []Condition   `json:"conditions"` // what is wrong now, the worst first; empty: nothing
		Instance     Instance      `json:"instance"`
	}
)

// Instance is what the instances that share must have in common.
type Instance struct {
	Name    string            `json:"name"`            // of its host
	Socket  string            `json:"socket"`          // its admin.listen there
	Admin   string            `json:"admin,omitempty"` // the URL of its admin.web, where others can reach that
	Release string            `json:"release"`
	Mode    string            `json:"mode"`
	Sharing string            `json:"sharing"` // coordination.kind
	Secret  string            `json:"secret"`  // the fingerprint of that which they share; empty: they have none
	Classes map[string]string `json:"classes"` // what each of their keys gets, in words
	Now     float64           `json:"now"`     // by its clock, Unix time in seconds
	Ahead   float64           `json:"-"`       // of the comparing instance's clock, in seconds
}

// mostSkew is the difference between clocks that is told, in seconds: what a second on the way can't
// explain.
const mostSkew = 2

// Names names a few instances, and counts many.
func Names(all []string) string {
	if len(all) > 3 {
		return fmt.Sprintf("%d instances", len(all))
	}
	return strings.Join(all, ", ")
}

// Drift tells in what instances differ that must have it in common. Doctor and proxy both compare.
func Drift(all []Instance) (drift []Condition) {
	differ := func(what, do string) {
		drift = append(drift, Condition{Name: "drift", What: "Instances differ in " + what, Do: do})
	}
	compare := func(of, do string, value func(*Instance) string) {
		names := make(map[string][]string) // by what they have
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
		for i, has := range groups { // the fewest first: it is more likely theirs that is wrong
			slices.Sort(names[has])
			groups[i] = Names(names[has]) + ": " + has
		}
		differ(of+": "+strings.Join(groups, "; ")+".", do)
	}
	compare("the release", "Install the same release on all of them.", func(i *Instance) string { return i.Release })
	compare("throttle.mode", "Set the same mode on all of them.", func(i *Instance) string { return i.Mode })
	compare("coordination.kind", "Set the same kind on all of them, and restart them.", func(i *Instance) string { return i.Sharing })
	compare("the secret that they share, by its fingerprint", "Copy the file from one of the others.", func(i *Instance) string { return i.Secret })
	classes := make(map[string]bool)
	for i := range all {
		for name := range all[i].Classes {
			classes[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		compare("the class "+name, "Give all of them the same classes: each counts the others' debts by its own shares.", func(i *Instance) string { return i.Classes[name] })
	}
	ahead := func(a, b Instance) int { return cmp.Compare(a.Ahead, b.Ahead) }
	if len(all) > 0 {
		if first, last := slices.MaxFunc(all, ahead), slices.MinFunc(all, ahead); first.Ahead-last.Ahead > mostSkew {
			differ(fmt.Sprintf("their clocks: that of %s is %.0f s ahead of that of %s.", first.Name, first.Ahead-last.Ahead, last.Name), "Have NTP set the clocks.")
		}
	}
	return drift
}

// Kernel is what the kernel helps with: the costs of requests, and CPU time for short ones. All
// times are in seconds.
type (
	Kernel struct {
		// Seconds is the time that Costs are of, a minute or so; 0: nothing is known yet.
		Seconds float64 `json:"seconds"`
		// Costs are always all sources: process, database, header and estimate.
		Costs []CostRow `json:"costs"`
		// Steps reports whether processes step down in priority where there is a need.
		Steps   bool      `json:"steps"`
		Lowered int       `json:"lowered"` // processes that have stepped down now
		Stepped []StepRow `json:"stepped"` // since the start, the smallest first
		// Missing is what is missing for the kernel's help; empty: nothing is.
		Missing []MissingRow `json:"missing"`
	}
	// CostRow is what requests cost that ended recently, by what that is known from: process (what
	// their workers used, by the kernel's count), database (their share of what one used), header
	// (the backend's word), estimate (their time, corrected by how busy the CPUs were).
	CostRow struct {
		Source string  `json:"source"`
		CPU    float64 `json:"cpu"` // CPU-seconds
		// Requests counts each where most of its cost is known from; a database's are among
		// those of process.
		Requests uint64 `json:"requests"`
	}
	// StepRow counts steps down in priority.
	StepRow struct {
		Below int    `json:"below"` // nice values below the process's own priority: 5, 10, and 20, which is idle
		Steps uint64 `json:"steps"`
	}
	// MissingRow is something that is missing.
	MissingRow struct {
		For    string `json:"for"`    // costs or priority
		What   string `json:"what"`   // in plain words
		Remedy string `json:"remedy"` // what to do, and where that is described; empty: nothing is known
	}
)

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
		Version int      `json:"version" fleet:"max"`
		Pins    []PinRow `json:"pins"`
	}
	// PinRow is a client with a standing set by hand.
	PinRow struct {
		Class    string  `json:"class" fleet:"key"`
		Key      string  `json:"key" fleet:"key"`
		Standing float64 `json:"standing" fleet:"key"`
		Left     float64 `json:"left" fleet:"max"`   // seconds that it holds
		Instance string  `json:"instance,omitempty"` // where, as of WaiterRow
	}
)
