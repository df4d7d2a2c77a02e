package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/connlimit"
)

// status shows how the proxy itself is.
func (d *doctor) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the proxy itself is",
		Long: `Show how the proxy itself is: what is wrong now and what to do about it, its release,
requests that it holds, bodies that it buffers, connections and the clients with the most of them,
certificates, where costs are known from, the kernel's help and what is missing for it,
the sharing of accounts with other instances, and all its counters. Of several instances: what is
wrong, in what they differ, and a line for each.`,
		Example: `  tempomat-doctor status
  tempomat-doctor status --socket /run/tempomat/admin.sock --socket http://10.0.0.2:8880`,
		Args: daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error { return d.printStatus(c.Context()) },
	}
}

func (d *doctor) printStatus(ctx context.Context) error {
	f, err := d.fleet(ctx)
	if err != nil {
		return err
	}
	if len(f.all) > 1 {
		return d.printInstances(ctx, f)
	}
	var reply api.StatusReply
	var gate api.GateReply
	var share api.ShareReply
	for _, ask := range []struct {
		path  string
		reply any
	}{{"/v1/status", &reply}, {"/v1/gate", &gate}, {"/v1/share", &share}} {
		if err := f.Get(ctx, ask.path, nil, ask.reply); err != nil {
			return err
		}
	}
	d.printConditions(reply.Conditions)
	p := &view.Pairs{}
	p.Add("release", "%s", reply.Release)
	p.Add("uptime", "%s", time.Duration(reply.Uptime)*time.Second)
	p.Add("mode", "%s", reply.Mode)
	p.Add("held", "%d", reply.Held)
	p.Add("goroutines", "%d", reply.Goroutines)
	b := reply.Buffer
	p.Add("buffered", "%s in memory, %s in %d files, %d bodies", view.Bytes(b.Memory), view.Bytes(b.Disk), b.Files, b.Spools)
	p.Add("no room", "%d times in memory, %d on disk, %d for one address, %d errors", b.NoMemory, b.NoDisk, b.NoAddress, b.Errors)
	addConnections(p, reply.Connections)
	for _, certificate := range reply.Certificates {
		addCertificate(p, time.Now(), certificate)
	}
	if gate.Kernel != nil {
		addKernel(p, gate.Kernel)
	}
	p.Add("sharing", "%s", share.Kind)
	if share.Trouble != "" {
		p.Add("  trouble", "%s", share.Trouble)
	}
	addTree(p, "  ", share.State)
	addTree(p, "  known", share.Known)
	for _, name := range slices.Sorted(maps.Keys(reply.Counters)) {
		p.Add(name, "%d", reply.Counters[name])
	}
	p.Print(&d.out)
	if gate.Kernel != nil {
		for _, m := range gate.Kernel.Missing { // long lines, which would widen the table
			if m.For == "costs" { // without which nothing steps down
				m.For = "exact costs and priority"
			}
			fmt.Fprintf(&d.out, "missing for %s: %s\n", view.Text(m.For), view.Text(m.What))
			if m.Remedy != "" {
				fmt.Fprintf(&d.out, "  remedy: %s\n", view.Text(m.Remedy))
			}
		}
	}
	return nil
}

// printInstances shows what is wrong with several instances, in what they differ, and a line for each.
func (d *doctor) printInstances(ctx context.Context, f *fleet) error {
	const path = "/v1/status"
	answers, err := f.ask(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	now := float64(time.Now().UnixMilli()) / 1000
	all, err := understood[api.StatusReply](path, answers)
	if err != nil {
		return err
	}
	var instances []api.Instance
	var wrong []api.Condition
	for i := range all {
		r := &all[i].T
		r.Instance.Name, r.Instance.Ahead = all[i].by, r.Instance.Now-now
		instances = append(instances, r.Instance)
		for _, c := range r.Conditions {
			c.What = all[i].by + ": " + c.What
			wrong = append(wrong, c)
		}
	}
	wrong = append(wrong, api.Drift(instances)...)
	slices.SortStableFunc(wrong, func(a, b api.Condition) int { return map[bool]int{true: 1}[b.Bad] - map[bool]int{true: 1}[a.Bad] })
	d.printConditions(wrong)
	t := view.NewTable(fmt.Sprintf("instances  %d of %d answer", len(all), len(f.all)), "Held", "Clients", "Uptime", "Clock[s]", "Release", "Mode", "Sharing", "Secret", "Instance")
	for i := range all {
		r, n := &all[i].T, &instances[i]
		t.Add(strconv.Itoa(r.Held), strconv.Itoa(r.Connections.Addresses), view.Duration(r.Uptime), fmt.Sprintf("%+.1f", n.Ahead),
			n.Release, n.Mode, n.Sharing, cmp.Or(n.Secret, "-"), n.Name)
	}
	t.Print(&d.out, d.screen().width)
	return nil
}

// printConditions prints what is wrong now, above all else.
func (d *doctor) printConditions(all []api.Condition) {
	for _, c := range all {
		view.Paragraph(&d.out, "! "+c.What, d.screen().width)
		view.Paragraph(&d.out, "  "+c.Do, d.screen().width)
	}
	if len(all) > 0 {
		fmt.Fprintln(&d.out)
	}
}

// addConnections shows how many there are, and the clients with the most.
func addConnections(p *view.Pairs, c connlimit.Stats) {
	p.Add("connections", "%d of at most %d, from %d addresses", c.Open, c.Most, c.Addresses)
	if c.Shed+c.Refused == 0 {
		return
	}
	p.Add("closed", "%d to make room, %d at once", c.Shed, c.Refused)
	for _, h := range append(c.Top[:min(len(c.Top), 3)], c.Networks[:min(len(c.Networks), 3)]...) {
		p.Add(fmt.Sprintf("  %s", h.Prefix), "%d connections", h.Open)
	}
}

// addCertificate shows for how long it is valid, and what is wrong with it.
func addCertificate(p *view.Pairs, now time.Time, c api.Certificate) {
	line := "missing"
	switch days := math.Round(c.Expires.Sub(now).Abs().Hours() / 24); {
	case c.Expires.After(now):
		line = fmt.Sprintf("valid to %s (days left: %.0f)", c.Expires.Format(time.DateOnly), days)
	case !c.Expires.IsZero():
		line = fmt.Sprintf("expired on %s (days ago: %.0f)", c.Expires.Format(time.DateOnly), days)
	}
	if c.Fault != "" {
		line += "; not in use: " + c.Fault
	}
	p.Add("certificate "+c.File, "%s", line)
}

// addTree adds whatever a program tells of itself, a line for each value.
func addTree(p *view.Pairs, name string, v any) {
	inside := func(key string) string {
		if strings.TrimSpace(name) == "" {
			return name + key
		}
		return name + "." + key
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			addTree(p, inside(key), v[key])
		}
	case []any:
		var words []string
		for i, member := range v {
			if word, is := member.(string); is {
				words = append(words, word)
			} else {
				addTree(p, inside(fmt.Sprint(i+1)), member)
			}
		}
		if len(words) == len(v) {
			p.Add(name, "%s", cmp.Or(strings.Join(words, ", "), "none"))
		}
	case string:
		p.Add(name, "%s", v)
	case float64: // all numbers of JSON; a million is not to become 1e+06
		p.Add(name, "%s", strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64))
	default:
		p.Add(name, "%v", v)
	}
}

// addKernel shows what the kernel helps with.
func addKernel(p *view.Pairs, k *api.Kernel) {
	of := "not yet"
	if k.Seconds > 0 {
		of = fmt.Sprintf("in the last %s, of requests that ended", view.Duration(k.Seconds))
	}
	p.Add("costs known", "%s", of)
	known := map[string]string{"process": "by the kernel", "database": "of a database", "header": "by Tempomat-Cost", "estimate": "estimated by time"}
	for _, c := range k.Costs {
		requests := view.Count(c.Requests) + " requests, "
		switch {
		case c.Source == "database":
			requests = ""
		case c.Requests == 1:
			requests = "1 request, "
		}
		p.Add("  "+cmp.Or(known[c.Source], c.Source), "%s%.2f CPU-s", requests, c.CPU)
	}
	steps := "no process steps down"
	if k.Steps {
		steps = "long requests' processes step down"
	}
	p.Add("priority", "%s; %s now lower", steps, view.Count(uint64(max(0, k.Lowered))))
	for _, s := range k.Stepped {
		p.Add("  to "+lowered(s.Below), "%s times since the start", view.Count(s.Steps))
	}
}

// lowered names how far a process has stepped down.
func lowered(below int) string {
	if below > 19 { // there is no such nice value
		return "idle"
	}
	return strconv.Itoa(below) + " lower"
}
