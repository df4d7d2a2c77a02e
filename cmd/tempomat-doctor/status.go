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

// status makes the command that shows the state of the proxy.
func (d *doctor) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of the proxy itself",
		Long: `Show the state of the proxy itself: its release, requests that it holds, bodies that it buffers,
connections and the clients with the most connections, certificates, how costs are measured, which
kernel features are missing and how to get them, the sharing of accounts with other instances, and
all counters. Current problems and what to do about them come last. For several instances, show
their problems, the differences between them, and a line for each.`,
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
	p := &view.Pairs{}
	p.Add("release", "%s", reply.Release)
	p.Add("uptime", "%s", time.Duration(reply.Uptime)*time.Second)
	p.Add("mode", "%s", reply.Mode)
	p.Add("held", "%d requests and responses", reply.Held)
	b := reply.Buffer
	p.Add("buffered", "%s in memory, %s in %d files, %d bodies", view.Bytes(b.Memory), view.Bytes(b.Disk), b.Files, b.Spools)
	if b.NoMemory+b.NoDisk+b.NoAddress+b.Errors > 0 {
		p.Add("no room", "%d times in memory, %d on disk, %d for one address, %d errors", b.NoMemory, b.NoDisk, b.NoAddress, b.Errors)
	}
	addConnections(p, reply.Connections)
	for _, certificate := range reply.Certificates {
		addCertificate(p, certificate)
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
		for _, m := range gate.Kernel.Missing { // printed after the table, because these lines are long
			if m.For == "costs" { // priorities need exact costs, so they are missing as well
				m.For = "exact costs and priority"
			}
			fmt.Fprintf(&d.out, "missing for %s: %s\n", view.Text(m.For), view.Text(m.What))
			if m.Remedy != "" {
				fmt.Fprintf(&d.out, "  remedy: %s\n", view.Text(m.Remedy))
			}
		}
	}
	if len(reply.Conditions) > 0 { // at the end, because the beginning may have scrolled off the screen
		fmt.Fprintln(&d.out)
		d.printConditions(reply.Conditions)
	}
	return nil
}

// status requests the status of several instances. wrong lists their current conditions and the differences between
// them, the most severe first.
func (f *fleet) status(ctx context.Context) (all []api.StatusReply, instances []api.Instance, wrong []api.Condition, err error) {
	const path = "/v1/status"
	answers, err := f.ask(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	now := float64(time.Now().UnixMilli()) / 1000
	all, err = understood[api.StatusReply](path, answers)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range all {
		r, name := &all[i], answers[i].from.name
		r.Instance.Name, r.Instance.Ahead = name, r.Instance.Now-now
		instances = append(instances, r.Instance)
		for _, c := range r.Conditions {
			c.What = name + ": " + c.What
			wrong = append(wrong, c)
		}
	}
	wrong = append(wrong, api.Drift(instances)...)
	api.WorstFirst(wrong)
	return all, instances, wrong, nil
}

// printInstances shows the conditions of several instances, the differences between them, and a line for
// each.
func (d *doctor) printInstances(ctx context.Context, f *fleet) error {
	all, instances, wrong, err := f.status(ctx)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		d.printConditions(wrong)
		fmt.Fprintln(&d.out)
	}
	t := view.NewTable(fmt.Sprintf("instances  %d of %d answer", len(all), len(f.all)), "Held", "Clients", "Uptime", "Clock[s]", "Release", "Mode", "Sharing", "Secret", "Instance")
	for i := range all {
		r, n := &all[i], &instances[i]
		t.Add(strconv.Itoa(r.Held), strconv.Itoa(r.Connections.Addresses), view.Duration(r.Uptime), fmt.Sprintf("%+.1f", n.Ahead),
			n.Release, n.Mode, n.Sharing, cmp.Or(n.Secret, "-"), n.Name)
	}
	t.Print(&d.out, d.screen().width)
	return nil
}

// printConditions prints the current problems, and what to do about them.
func (d *doctor) printConditions(all []api.Condition) {
	for _, c := range all {
		view.Paragraph(&d.out, "! "+c.What, d.screen().width)
		view.Paragraph(&d.out, "  "+c.Do, d.screen().width)
	}
}

// addConnections shows the number of connections, and the clients with the most connections.
func addConnections(p *view.Pairs, c connlimit.Stats) {
	p.Add("connections", "%d of at most %d, from %s", c.Open, c.Most, view.Addresses(c.Addresses))
	if c.Shed+c.Refused == 0 {
		return
	}
	p.Add("closed", "%d to make room, %d on arrival", c.Shed, c.Refused)
	for _, h := range append(c.Top[:min(len(c.Top), 3)], c.Networks[:min(len(c.Networks), 3)]...) {
		p.Add(fmt.Sprintf("  %s", h.Prefix), "%d connections", h.Open)
	}
}

// addCertificate shows when a certificate expires. Conditions warn before and after that.
func addCertificate(p *view.Pairs, c api.Certificate) {
	line, but := "none", ": "
	if !c.Expires.IsZero() {
		line, but = "valid to "+c.Expires.Format(time.DateOnly), "; the new file is not in use: "
	}
	if c.Fault != "" {
		line += but + c.Fault
	}
	p.Add("certificate "+c.File, "%s", line)
}

// addTree adds a line for each value of any JSON document.
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
	case float64: // any number; %v would print a million as 1e+06
		p.Add(name, "%s", strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64))
	default:
		p.Add(name, "%v", v)
	}
}

// addKernel shows how the costs of requests are measured, and whether short requests get priority.
func addKernel(p *view.Pairs, k *api.Kernel) {
	of := "not yet"
	if k.Seconds > 0 {
		of = fmt.Sprintf("in the last %s, for requests that ended", view.Duration(k.Seconds))
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
	steps := "off"
	if k.Steps {
		steps = "on"
	}
	p.Add("priority", "%s; processes with a lowered priority: %s", steps, view.Count(uint64(max(0, k.Lowered))))
}
