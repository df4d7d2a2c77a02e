package main

import (
	"errors"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry/metrics"
)

// kernel is what the kernel helps with, and what is missing for it.
func (s *sidecar) kernel() api.Kernel {
	costs, of := s.costs.Lately(time.Now(), s.handler.Policy().Meter.Sums())
	return kernelReply(costs, of, s.priorities.numbers(), s.bills.lacks(), s.priorities.lacks())
}

// kernelReply tells what requests cost that ended in the last time, how processes stepped down,
// and what is missing: for the bill, without which nothing steps down either, and for the steps.
func kernelReply(costs cpuaccount.Sums, of time.Duration, p metrics.Priorities, bill, steps error) api.Kernel {
	n := costs.Requests
	k := api.Kernel{
		Seconds: of.Seconds(),
		Costs: []api.CostRow{
			{Source: "process", CPU: costs.Process.Seconds(), Requests: n.Process},
			{Source: "database", CPU: costs.Database.Seconds()},
			{Source: "header", CPU: costs.Told.Seconds(), Requests: n.Told},
			{Source: "estimate", CPU: costs.Estimated.Seconds(), Requests: n.Estimated},
		},
		Lowered: p.Lowered, Stepped: []api.StepRow{}, Missing: []api.MissingRow{},
	}
	for i, n := range p.Steps {
		k.Stepped = append(k.Stepped, api.StepRow{Below: host.StepDown(i + 1), Steps: n})
	}
	if n.Process > 0 { // workers tell, where they are not found
		bill = nil
	}
	if bill != nil {
		k.Missing = append(k.Missing, missing(lackedFor(bill, n.Told), bill))
	}
	if steps != nil && !errors.Is(steps, bill) {
		k.Missing = append(k.Missing, missing("priority", steps))
	}
	k.Steps = p.On && len(k.Missing) == 0
	return k
}

// lackedFor is what is missing where the bill is: whose backend tells costs (cost.source: header)
// lacks none of these, but nobody looks which process serves a request, which the steps need.
func lackedFor(bill error, told uint64) string {
	if told > 0 && errors.Is(bill, errNotMeasured) {
		return "priority"
	}
	return "costs"
}

func missing(what string, err error) api.MissingRow {
	return api.MissingRow{For: what, What: err.Error(), Remedy: remedy(err)}
}

// remedy says what to do, and where that is described; empty: nothing can be done.
func remedy(err error) string {
	switch {
	case errors.Is(err, errNotWanted):
		return "gate.priority: auto (docs/kernel.md)"
	case errors.Is(err, errNobodySlowed):
		return "throttle: {mode: fair, shadow: false} (docs/shadow.md)"
	case errors.Is(err, errNotMeasured):
		return "cost.source: auto (docs/kernel-bill.md)"
	case errors.Is(err, errNoRecord):
		return "state: a file that the proxy may write, as /var/lib/tempomat/state (docs/kernel.md)"
	case errors.Is(err, errElsewhere):
		return "run the proxy on the backend's machine, and name that as localhost or 127.0.0.1; else all goes on without (docs/kernel.md)"
	case errors.Is(err, errDeaf):
		return "cost.socket in a directory that is there and that the proxy may write, such as unix:/run/tempomat/worker.sock, and a reload or restart (docs/kernel-bill.md)"
	case errors.Is(err, errUntold):
		return "let the workers load their file, tell them by TEMPOMAT_SOCKET of another path than /run/tempomat/worker.sock, and let their user enter its directory; or grant both rights (docs/kernel-bill.md, When nobody tells)"
	case errors.Is(err, host.ErrRight):
		return "let the workers tell, which takes no right (cost.socket), or grant both rights: the drop-in exact-bill.conf of systemd, --cap-add in Docker, kernelHelp of the Helm chart (docs/kernel-bill.md, Rights)"
	case errors.Is(err, host.ErrElsewhere), errors.Is(err, host.ErrHidden):
		return "give proxy and backend one PID namespace and one network: --pid and --network in Docker, kernelHelp of the Helm chart (docs/kernel-bill.md, Rights)"
	case host.IsForbidden(err):
		return "grant CAP_SYS_NICE: the drop-in priority.conf of systemd, --cap-add SYS_NICE in Docker, kernelHelp of the Helm chart (docs/kernel.md, Rights)"
	case errors.Is(err, errors.ErrUnsupported):
		return "only Linux has it; else all goes on without (docs/kernel.md)"
	default:
		return ""
	}
}
