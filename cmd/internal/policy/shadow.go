package policy

import (
	"slices"

	"tempomat/config"
	"tempomat/limiter"
)

// Enforced is what the limiter would be told if what is in shadow acted, and the mode that it
// would be in; empty: nothing is in shadow.
func Enforced(c *config.Config) (p limiter.Policy, mode string) {
	if mode = c.InShadow(); mode == "" {
		return p, ""
	}
	acts := *c
	acts.Throttle.Mode, acts.Throttle.Shadow = mode, "false"
	acts.Coordination.Kind = config.SharesNothing // nobody tells the estimate anything
	acts.Classes = slices.Clone(c.Classes)
	for i := range acts.Classes {
		acts.Classes[i].Shadow = false
	}
	return Limits(&acts), mode
}
