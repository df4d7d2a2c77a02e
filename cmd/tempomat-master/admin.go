package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tempomat/limiter/smockron/master"
	"tempomat/proxy/admin/api"
)

// The admin API: JSON over HTTP on a Unix socket, for tempomat-doctor.
type (
	// statusReply answers GET /v1/master.
	statusReply struct {
		Version         int     `json:"version"`
		Release         string  `json:"release"`
		Uptime          float64 `json:"uptime"` // seconds
		Reloads         uint64  `json:"reloads"`
		ReloadsRejected uint64  `json:"reloadsRejected"`
		master.State
	}
	// identifiersReply answers GET /v1/identifiers?domain=…&limit=…
	identifiersReply struct {
		Version int                      `json:"version"`
		Domain  string                   `json:"domain"`
		Rows    []master.IdentifierState `json:"rows"` // the longest wait first
	}
)

// maxIdentifiers limits the identifiers in one answer.
const maxIdentifiers = 10_000

func (s *server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/master", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.status()) })
	mux.HandleFunc("GET /v1/identifiers", s.identifiers)
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.reload(); err != nil {
			answer(w, http.StatusUnprocessableEntity, api.ErrorReply{Version: api.Version, Error: err.Error()})
			return
		}
		answer(w, http.StatusOK, s.status())
	})
	return mux
}

func (s *server) status() statusReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return statusReply{
		Version: api.Version, Release: version, Uptime: time.Since(s.started).Seconds(),
		Reloads: s.reloads, ReloadsRejected: s.rejected, State: s.master.State(),
	}
}

func (s *server) identifiers(w http.ResponseWriter, r *http.Request) {
	limit := 20
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxIdentifiers {
			answer(w, http.StatusBadRequest, api.ErrorReply{Version: api.Version, Error: "limit must be a number from 1 to 10000"})
			return
		}
		limit = n
	}
	domain := r.FormValue("domain")
	rows, known := s.master.Identifiers(time.Now(), domain, limit)
	if !known {
		answer(w, http.StatusNotFound, api.ErrorReply{Version: api.Version, Error: "there is no domain " + strconv.Quote(domain)})
		return
	}
	answer(w, http.StatusOK, identifiersReply{api.Version, domain, rows})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the doctor has disconnected
}

// metricsHandler serves metrics to Prometheus.
func (s *server) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s.master.State, s.output.Lost})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError, Registry: registry, // the registry counts errors
	}))
	return mux
}

// collector converts the master's state to metrics. Domains are labels, but identifiers never are.
type collector struct {
	state     func() master.State
	lostLines func() uint64
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.state()
	tell := func(name, help string, kind prometheus.ValueType, x float64, pairs ...string) {
		var labels, values []string
		for i := 0; i < len(pairs); i += 2 {
			labels, values = append(labels, pairs[i]), append(values, pairs[i+1])
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("tempomat_master_"+name, help, labels, nil), kind, x, values...)
	}
	count := func(name, help string, n uint64, pairs ...string) {
		tell(name+"_total", help, prometheus.CounterValue, float64(n), pairs...)
	}
	gauge := func(name, help string, n int, pairs ...string) {
		tell(name, help, prometheus.GaugeValue, float64(n), pairs...)
	}
	for _, d := range s.Domains {
		const accounting = "Accounting messages processed, by domain and status."
		count("accounting", accounting, d.Counts.Accepted, "domain", d.Name, "status", "accepted")
		count("accounting", accounting, d.Counts.Delayed, "domain", d.Name, "status", "delayed")
		count("accounting", accounting, d.Counts.Rejected, "domain", d.Name, "status", "rejected")
		count("throttled", "Orders to wait that were sent.", d.Counts.Throttled, "domain", d.Name)
		count("skewed", "Messages dropped because their time differed too much from the master's.", d.Counts.Skewed, "domain", d.Name)
		count("no_cost", "Messages without the cost that a credit rule needs.", d.Counts.NoCost, "domain", d.Name)
		count("evicted", "Identifiers forgotten because there were too many.", d.Counts.Evicted, "domain", d.Name)
		gauge("identifiers", "Identifiers in memory.", d.Identifiers, "domain", d.Name)
		gauge("gatekeepers", "Subscribed gatekeepers.", d.Gatekeepers, "domain", d.Name)
	}
	for fault, n := range s.Counts.Malformed {
		count("malformed", "Invalid messages, by fault.", n, "fault", fault)
	}
	count("unknown_domain", "Messages for domains that are not configured.", s.Counts.UnknownDomain)
	count("overload_dropped", "Accounting messages dropped, oldest first, because there were too many.", s.Counts.Overload)
	count("late", "Orders that expired before they could be sent.", s.Counts.Late)
	count("resyncs", "Requests for the whole state of a domain.", s.Counts.Resyncs)
	count("log_lines_lost", "Log lines lost because the log could not be written or its reader was too slow.", c.lostLines())
	gauge("unsaved", "Identifiers whose current state is not in the store yet.", s.Unsaved)
}
