package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tempomat/proxy/admin/api"
)

// From where on things are said to be so.
const (
	fullFrom     = 0.85 // of the CPUs
	fullOfOthers = 0.5  // of the CPUs, by what else runs there, in the same seconds
	quietBelow   = 0.005
	quietOf      = 0.05 // part of the CPUs below which the overview names no users
	muchWaste    = 0.05 // of the CPU
	slowFrom     = 2.0  // seconds, p95 of people
	alsoFrom     = 0.2  // of its group's CPU, the second page
	dearFrom     = 0.3  // of its page's CPU, a parameter
	mostDear     = 3    // parameters that are named
)

// finding is a sentence of the overview.
type finding struct {
	style Style
	text  string
}

// findings show at a glance which clients use the CPU, for what, and who suffers.
func (m *Model) findings() []finding {
	o := &m.data.Overview
	if o.Version == 0 {
		return nil
	}
	full := o.CPUs > 0 && o.CPU/o.CPUs >= fullFrom || o.Gate.Utilisation >= fullFrom
	var all []finding
	for i := range o.Conditions {
		c := &o.Conditions[i]
		all = append(all, finding{conditionStyle(c), Text(c.What + " " + c.Do)})
	}
	all = append(all, m.load(full))
	all = append(all, m.dearest(full)...)
	all = append(all, m.holders()...)
	all = append(all, m.people())
	if o.CPU > 0 && o.Wasted/o.CPU >= muchWaste {
		all = append(all, finding{Warning, Share(o.Wasted, o.CPU) + " of the requests' CPU time is wasted: their clients had disconnected."})
	}
	refused, redirected := 0.0, 0.0
	for _, g := range o.Groups {
		refused, redirected = refused+g.Refused, redirected+g.Redirected
	}
	if refused+redirected >= quietBelow {
		all = append(all, finding{Plain, fmt.Sprintf("Refused: %s requests a second, redirected: %s. Why: pane 5.", Number(refused), Number(redirected))})
	}
	if full && m.waiting() == 0 && slowest(o.Groups) >= slowFrom {
		all = append(all, finding{Bad, "The CPUs are full, people wait for the backend, and tempomat holds no request back. " +
			"Check in pane 6 how many CPUs and workers it takes the backend to have."})
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
	text += fmt.Sprintf("in the last %.0f s requests used %s", o.Seconds, Percent(o.CPU, o.CPUs))
	if o.Estimated > 0.5 && o.CPU >= quietOf*o.CPUs {
		text += " (estimated from the time that they took)"
	}
	if o.Use >= 0 {
		text += ", all that runs there " + Percent(o.Use, 1)
	}
	if others := o.Use - o.CPU/max(o.CPUs, 1); full && others > fullOfOthers {
		return finding{Warning, "The server is full, and not by requests" + text + ". What else runs there?"}
	}
	if full {
		return finding{Warning, "The server is full" + text + "."}
	}
	if len(o.Conditions) > 0 && o.Conditions[0].Bad || m.waiting() > 0 {
		return finding{Plain, "The CPUs have room" + text + "."}
	}
	return finding{Good, "The server has room" + text + "."}
}

// dearest names the group that uses most, and its pages.
func (m *Model) dearest(full bool) []finding {
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
	all := []finding{{style, text + "; " + m.page(&pages[0], g, " of it is ") + "."}}
	if len(pages) > 1 && pages[1].Groups[g.Name] >= alsoFrom*m.pagesCPU(g.Name) {
		all = append(all, finding{style, "Another " + m.page(&pages[1], g, " is ") + "."})
	}
	return all
}

// holders names what the workers are held for, if half of them are in use. That is told apart from
// CPU time: a page that sleeps holds a worker and uses none.
func (m *Model) holders() []finding {
	o := &m.data.Overview
	g := &o.Gate
	if g.Busy < 2 || 2*g.Busy < g.Workers || len(o.Places) == 0 {
		return nil
	}
	text := fmt.Sprintf("Workers: %s are in use", Count(g.Busy))
	if g.Workers > 0 {
		text = fmt.Sprintf("Workers: %s of %s are in use", Count(g.Busy), Count(g.Workers))
	}
	if g.Holding > 0 {
		text += fmt.Sprintf(", %s of them by requests that compute little", Count(min(g.Holding, g.Busy)))
	}
	p := o.Places[0]
	return []finding{{Plain, fmt.Sprintf("%s. Most requests there: %s by %s, for %s.", text, Count(p.Count), Text(p.Group), Text(p.Shape))}}
}

// page describes a group's page: its part, what makes it expensive, and which clients ask for it.
func (m *Model) page(s *api.ShapeRow, g api.GroupRow, is string) string {
	text := Share(s.Groups[g.Name], m.pagesCPU(g.Name)) + is + Text(s.Shape)
	var dear []string
	for _, p := range s.Parameters[:min(len(s.Parameters), mostDear)] {
		if p.CPU >= s.CPU*dearFrom {
			dear = append(dear, Text(p.Name))
		}
	}
	if len(dear) > 0 {
		text += " (" + strings.Join(dear, ", ") + ")"
	}
	text += fmt.Sprintf(", from %s addresses", Count(s.Addresses))
	if s.Addresses == 1 {
		text = text[:len(text)-len("es")]
	}
	if len(s.Networks) == 0 {
		return text
	}
	if first := s.Networks[0]; first.CPU > s.CPU/2 {
		return text + ", most in " + Text(first.Name)
	}
	return text
}

// people describes how known clients fare.
func (m *Model) people() finding {
	for _, g := range m.data.Overview.Groups {
		if g.Name != "known" {
			continue
		}
		text := "Known clients: "
		style := Good
		if g.Waiting > 0 {
			text += fmt.Sprintf("%s wait, longest %s", Count(g.Waiting), Duration(g.Longest))
			style = ageStyle(g.Longest)
		} else {
			text += "none waits"
		}
		if g.P95 > 0 {
			text += fmt.Sprintf("; p50 %s, p95 %s", Duration(g.P50), Duration(g.P95))
		}
		if g.P95 >= slowFrom {
			style = Warning
		}
		return finding{style, text + "."}
	}
	return finding{}
}

// slowest is the greater p95 of those who may be people.
func slowest(groups []api.GroupRow) float64 {
	most := 0.0
	for _, g := range groups {
		if g.Name == "known" || g.Name == "newcomers" {
			most = max(most, g.P95)
		}
	}
	return most
}

// waiting is how many wait, of all groups.
func (m *Model) waiting() int {
	n := 0
	for _, g := range m.data.Overview.Groups {
		n += g.Waiting
	}
	return n
}

// longest is for how long the first of them has waited.
func (m *Model) longest() float64 {
	most := 0.0
	for _, g := range m.data.Overview.Groups {
		most = max(most, g.Longest)
	}
	return most
}
