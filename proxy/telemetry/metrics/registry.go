package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// mostAtOnce is how many may ask for all numbers at the same time; others get a 503.
const mostAtOnce = 4

// Handler answers Prometheus at /metrics: the table, the durations, and what Go and the
// kernel tell of the process. state is called for each answer, concurrently.
func Handler(state func() *State, d *Durations) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(state), d, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostAtOnce, EnableOpenMetrics: true,
		ErrorHandling: promhttp.ContinueOnError, Registry: registry, // which counts what is missing
	}))
	return mux
}
