package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"tempomat/limiter/smockron/master"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
)

// The admin API: JSON over HTTP on a unix socket, for tempomat-doctor.
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
		Rows    []master.IdentifierState `json:"rows"` // who waits longest first
	}
)

// maxIdentifiers is how many are told of in one answer.
const maxIdentifiers = 10_000

// listenAdmin listens where the doctor asks; nil without: the master goes on all the same.
func (s *server) listenAdmin(ctx context.Context, address string) net.Listener {
	if address == "" {
		return nil
	}
	l, err := host.ListenUnix(ctx, strings.TrimPrefix(address, "unix:"))
	if err != nil {
		s.log.Error("can't open the admin socket; tempomat-doctor won't work", zap.String("admin.listen", address), zap.Error(err))
		return nil
	}
	return l
}

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
	_ = json.NewEncoder(w).Encode(v) // the doctor has gone: nobody to tell
}

// metricsHandler answers Prometheus.
func (s *server) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(s.master.State, s.output.Lost))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError, Registry: registry, // which counts what is missing
	}))
	return mux
}

// collector tells Prometheus how the master stands. Domains are labels,
// identifiers never are.
type collector struct {
	state                                                  func() master.State
	lostLines                                              func() uint64
	accounting, throttled, skewed, noCost, evicted         *prometheus.Desc
	identifiers, gatekeepers                               *prometheus.Desc
	malformed, unknown, overload, late, resyncs, unsavedNo *prometheus.Desc
	lost                                                   *prometheus.Desc
}

func newCollector(state func() master.State, lostLines func() uint64) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tempomat_master_"+name, help, labels, nil)
	}
	return &collector{
		state:       state,
		lostLines:   lostLines,
		accounting:  desc("accounting_total", "Accounting messages taken in, by domain and status.", "domain", "status"),
		throttled:   desc("throttled_total", "Orders to wait that were made.", "domain"),
		skewed:      desc("skewed_total", "Messages dropped as their times were too far from the master's.", "domain"),
		noCost:      desc("no_cost_total", "Messages without the cost that a credit rule needs.", "domain"),
		evicted:     desc("evicted_total", "Identifiers forgotten as there were too many.", "domain"),
		identifiers: desc("identifiers", "Identifiers that are remembered.", "domain"),
		gatekeepers: desc("gatekeepers", "Gatekeepers that subscribed.", "domain"),
		malformed:   desc("malformed_total", "Messages that were not sound, by what was wrong.", "fault"),
		unknown:     desc("unknown_domain_total", "Messages of domains that are not configured."),
		overload:    desc("overload_dropped_total", "Accounting dropped, oldest first, as there was too much."),
		late:        desc("late_total", "Orders that were past before they could be sent."),
		resyncs:     desc("resyncs_total", "Requests for all that is known of a domain."),
		lost:        desc("log_lines_lost_total", "Lines of the log that were lost: it could not be written, or what reads it was too slow."),
		unsavedNo:   desc("unsaved", "Identifiers that the store does not have as they are."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.state()
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, x float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, x, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		tell(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, d := range s.Domains {
		count(c.accounting, d.Counts.Accepted, d.Name, "accepted")
		count(c.accounting, d.Counts.Delayed, d.Name, "delayed")
		count(c.accounting, d.Counts.Rejected, d.Name, "rejected")
		count(c.throttled, d.Counts.Throttled, d.Name)
		count(c.skewed, d.Counts.Skewed, d.Name)
		count(c.noCost, d.Counts.NoCost, d.Name)
		count(c.evicted, d.Counts.Evicted, d.Name)
		tell(c.identifiers, prometheus.GaugeValue, float64(d.Identifiers), d.Name)
		tell(c.gatekeepers, prometheus.GaugeValue, float64(d.Gatekeepers), d.Name)
	}
	for fault, n := range s.Counts.Malformed {
		count(c.malformed, n, fault)
	}
	count(c.unknown, s.Counts.UnknownDomain)
	count(c.overload, s.Counts.Overload)
	count(c.late, s.Counts.Late)
	count(c.resyncs, s.Counts.Resyncs)
	count(c.lost, c.lostLines())
	tell(c.unsavedNo, prometheus.GaugeValue, float64(s.Unsaved))
}
