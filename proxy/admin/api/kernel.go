package api

// Kernel is what the kernel helps with: what requests cost, and the CPUs for what is short. All
// times are in seconds.
type (
	Kernel struct {
		// Seconds is the time that Costs are of, a minute or so; 0: nothing is known yet.
		Seconds float64 `json:"seconds"`
		// Costs are always all sources: process, database, header and estimate.
		Costs []CostRow `json:"costs"`
		// Steps tells whether processes step down in priority where there is a need.
		Steps   bool      `json:"steps"`
		Lowered int       `json:"lowered"` // processes that have stepped down now
		Stepped []StepRow `json:"stepped"` // since the start, the smallest first
		// Missing is what is missing for the kernel's help; empty: nothing is.
		Missing []MissingRow `json:"missing"`
	}
	// CostRow is what requests cost that ended lately, by what that is known from: process (what
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
