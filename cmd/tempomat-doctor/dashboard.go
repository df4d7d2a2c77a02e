package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
)

// dashboard makes the command that serves the dashboard with the documents of all selected instances.
func (d *doctor) dashboard() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve the dashboard for several instances until interrupted",
		Long: `Serve tempomat-proxy's dashboard with the totals of all instances that --fleet finds or --socket
names. Like the page at admin.web, this page asks for the token in the file that --token names.
Without this command, each proxy serves the dashboard of its own instance.`,
		Example: "  tempomat-doctor dashboard --fleet",
		Args:    daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			tokenFile := cmp.Or(d.token, usualFile)
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			f, err := d.fleet(c.Context())
			if err != nil {
				return err
			}
			l, err := new(net.ListenConfig).Listen(c.Context(), "tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(d.stderr, "The dashboard is served at http://%s/. It asks for the token in %s.\n", l.Addr(), tokenFile)
			server := admin.NewDashboard(f.documents(), token)
			context.AfterFunc(c.Context(), func() { _ = server.Close() })
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8881", "the `address` on which to serve the dashboard, over plain HTTP")
	return c
}

// documents serves the part of the admin API that the dashboard uses.
func (f *fleet) documents() http.Handler {
	mux := http.NewServeMux()
	for path, reply := range map[string]func() any{
		"/v1/overview": func() any { return new(api.OverviewReply) },
		"/v1/shapes":   func() any { return new(api.ShapesReply) },
		"/v1/classes":  func() any { return new(api.ClassesReply) },
		"/v1/buckets":  func() any { return new(api.BucketsReply) },
		"/v1/queue":    func() any { return new(api.QueueReply) },
		"/v1/recent":   func() any { return new(api.RecentReply) },
		"/v1/explain":  func() any { return new(api.ExplainReply) },
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			x := reply()
			err := f.Get(r.Context(), path, r.URL.Query(), x)
			admin.Answer(w, x, err)
		})
	}
	mux.HandleFunc("GET /v1/share", func(w http.ResponseWriter, r *http.Request) {
		x, err := f.health(r.Context())
		admin.Answer(w, x, err)
	})
	mux.HandleFunc("POST /v1/forgive", func(w http.ResponseWriter, r *http.Request) {
		x := api.ActReply{Version: api.Version}
		a, err := admin.ReadAct(r)
		if err == nil {
			var done []string
			done, err = f.act(r.Context(), "/v1/forgive", a)
			x.Done = strings.Join(done, " ")
		}
		admin.Answer(w, x, err)
	})
	return mux
}

// health makes the panel Health for several instances: a line for each instance, and the differences between them.
func (f *fleet) health(ctx context.Context) (api.ShareReply, error) {
	reply := api.ShareReply{Version: api.Version}
	statuses, instances, wrong, err := f.status(ctx)
	for i, n := range instances {
		reply.Lines = append(reply.Lines, api.HealthLine{
			Name: n.Name, Well: true, Text: fmt.Sprintf("%s %s, up %s, sharing by %s", n.Release, n.Mode, view.Duration(statuses[i].Uptime), n.Sharing),
		})
	}
	if missing := f.missing(); err == nil && missing != nil {
		reply.Lines = append(reply.Lines, api.HealthLine{Name: "No answer", Text: strings.ReplaceAll(missing.Error(), "\n", "; ")})
	}
	for _, c := range wrong {
		if c.Name == api.DriftCondition { // the page shows all other conditions at its top
			reply.Lines = append(reply.Lines, api.HealthLine{Name: "Settings", Text: c.What + " " + c.Do})
		}
	}
	return reply, err
}
