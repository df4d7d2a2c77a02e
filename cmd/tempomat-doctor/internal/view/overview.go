package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tempomat/proxy/admin/api"
)

// The thresholds for the sentences of the overview.
const (
	fullFrom      = 0.85 // of the CPUs
	fullOfOthers  = 0.5  // of the CPUs, by other programs, in the same seconds
	quietBelow    = 0.005
	quietOf       = 0.05 // fraction of the CPUs below which the overview names no users
	muchWaste     = 0.05 // of the requests' CPU time
	slowFrom      = 2.0  // seconds, p95 of people
	alsoFrom      = 0.2  // of its group's CPU time, for the second page
	expensiveFrom = 0.3  // of its page's CPU time, for a parameter
	mostListed    = 3    // parameters that are listed
)

// finding is a sentence of the overview.
type finding struct {
	style Style
	text  string
}

// findings returns sentences about which clients use the CPU, for which pages, and how long people wait.
func (m *Model) findings() (all []finding) {
	o := &m.data.Overview
	if o.Version == 0 {
		return nil
	}
	say := func(style Style, format string, args ...any) {
		all = append(all, finding{style, fmt.Sprintf(format, args...)})
	}
	full := o.CPUs > 0 && o.CPU/o.CPUs >= fullFrom || o.Gate.Utilisation >= fullFrom
	for i := range o.Conditions {
		say(conditionStyle(&o.Conditions[i]), "%s", Text(o.Conditions[i].What+" "+o.Conditions[i].Do))
	}
	all = append(all, m.load(full))
	all = append(all, m.expensive(full)...)
	m.holders(say)
	m.people(say)
	if o.CPU > 0 && o.Wasted/o.CPU >= muchWaste {
		say(Warning, "%s of the requests' CPU time is wasted on disconnected clients.", Percent(o.Wasted, o.CPU))
	}
	refused, redirected, slowest := 0.0, 0.0, 0.0
	for _, g := range o.Groups {
		refused, redirected = refused+g.Refused, redirected+g.Redirected
		if g.Name == "known" || g.Name == "newcomers" {
			slowest = max(slowest, g.P95)
		}
	}
	if refused+redirected >= quietBelow {
		say(Plain, "Refused: %s requests per second; redirected: %s. Pane 5 (verdicts) shows why.", Number(refused), Number(redirected))
	}
	if !full || m.waiting() > 0 || slowest < slowFrom {
		return all
	}
	if o.Mode == "observe" {
		say(Warning, "The CPUs are full and people's pages are slow. tempomat only observes (throttle.mode), so it delays no requests.")
	} else {
		say(Bad, "The CPUs are full and people's pages are slow, but tempomat delays no requests. "+
			"Check in pane 6 (gate) that the numbers of CPUs and workers are right.")
	}
	return all
}

// load describes how full the server is.
func (m *Model) load(full bool) finding {
	o := &m.data.Overview
	text := ": "
	if o.Gate.Utilisation >= 0 {
		text += Percent(o.Gate.Utilisation, 1) + " of the CPUs are in use; "
	}
	text += fmt.Sprintf("in the last %.0f s, requests used %s", o.Seconds, Percent(o.CPU, o.CPUs))
	if o.Estimated > 0.5 && o.CPU >= quietOf*o.CPUs {
		text += " (estimated from their duration)"
	}
	if o.Use >= 0 {
		text += ", and all programs except niced ones " + Percent(o.Use, 1)
	}
	switch {
	case full && o.Use-o.CPU/max(o.CPUs, 1) > fullOfOthers:
		return finding{Warning, "The CPUs are full, but not because of requests" + text + ". Check what else runs on the server."}
	case full:
		return finding{Warning, "The server is full" + text + "."}
	case len(o.Conditions) > 0 && o.Conditions[0].Bad || m.waiting() > 0:
		return finding{Plain, "The CPUs have room" + text + "."}
	}
	return finding{Good, "The server has room" + text + "."}
}

// expensive returns sentences about the group that uses the most CPU time, and its pages.
func (m *Model) expensive(full bool) []finding {
	o := &m.data.Overview
	if o.CPU < quietOf*o.CPUs || o.CPU < quietBelow || len(o.Groups) == 0 {
		return nil
	}
	g := slices.MaxFunc(o.Groups, func(a, b api.GroupRow) int { return cmp.Compare(a.CPU, b.CPU) })
	style := Plain
	if full && g.Name != "known" && g.Name != "exempt" {
		style = Bad
	}
	text := fmt.Sprintf("%s use %s of the requests' CPU time", Text(g.Name), Percent(g.CPU, o.CPU))
	pages := slices.Clone(m.data.Shapes.Rows)
	slices.SortStableFunc(pages, func(a, b api.ShapeRow) int { return cmp.Compare(b.Groups[g.Name], a.Groups[g.Name]) })
	if len(pages) == 0 || pages[0].Groups[g.Name] <= 0 {
		return []finding{{style, text + "."}}
	}
	all := []finding{{style, text + "; " + m.page(&pages[0], g.Name, " of it is ") + "."}}
	if len(pages) > 1 && pages[1].Groups[g.Name] >= alsoFrom*m.pagesCPU(g.Name) {
		all = append(all, finding{style, "Another " + m.page(&pages[1], g.Name, " is ") + "."})
	}
	return all
}

// page describes a group's page: its part of the group's use, the parameters that make it expensive, and the clients
// that request it.
func (m *Model) page(s *api.ShapeRow, group, is string) string {
	text := Percent(s.Groups[group], m.pagesCPU(group)) + is + Text(s.Shape)
	var names []string
	for _, p := range s.Parameters[:min(len(s.Parameters), mostListed)] {
		if p.CPU >= s.CPU*expensiveFrom {
			names = append(names, Text(p.Name))
		}
	}
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	text += ", from " + Addresses(s.Addresses)
	if len(s.Networks) > 0 && s.Networks[0].CPU > s.CPU/2 {
		text += ", mostly in " + Text(s.Networks[0].Name)
	}
	return text
}

// holders describes the requests that hold the workers, if half of the workers are in use. It ignores CPU
// time, because a page that sleeps holds a worker but uses no CPU.
func (m *Model) holders(say func(style Style, format string, args ...any)) {
	g, places := &m.data.Overview.Gate, m.data.Overview.Places
	if g.Busy < 2 || 2*g.Busy < g.Workers || len(places) == 0 {
		return
	}
	text := fmt.Sprintf("Workers: %s are in use", Count(g.Busy))
	if g.Workers > 0 {
		text = fmt.Sprintf("Workers: %s of %s are in use", Count(g.Busy), Count(g.Workers))
	}
	if g.Holding > 0 {
		text += fmt.Sprintf(", %s of them by requests that compute little", Count(min(g.Holding, g.Busy)))
	}
	say(Plain, "%s. Most common requests: %s by %s, for %s.", text, Count(places[0].Count), Text(places[0].Group), Text(places[0].Shape))
}

// people describes how long known clients wait.
func (m *Model) people(say func(style Style, format string, args ...any)) {
	for _, g := range m.data.Overview.Groups {
		if g.Name != "known" {
			continue
		}
		style, text := Good, "none is waiting"
		if g.Waiting > 0 {
			style, text = ageStyle(g.Longest), fmt.Sprintf("%s waiting, longest %s", Count(g.Waiting), Duration(g.Longest))
		}
		if g.P95 > 0 {
			text += fmt.Sprintf("; p50 %s, p95 %s", Duration(g.P50), Duration(g.P95))
		}
		if g.P95 >= slowFrom {
			style = Warning
		}
		say(style, "Known clients: %s.", text)
	}
}

// waiting returns the number of waiting requests in all groups.
func (m *Model) waiting() int {
	n := 0
	for _, g := range m.data.Overview.Groups {
		n += g.Waiting
	}
	return n
}

// longest returns the longest time that a request has waited, in seconds.
func (m *Model) longest() float64 {
	most := 0.0
	for _, g := range m.data.Overview.Groups {
		most = max(most, g.Longest)
	}
	return most
}
