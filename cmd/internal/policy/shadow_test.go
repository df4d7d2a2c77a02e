package policy

import (
	"testing"

	"tempomat/config"
	"tempomat/limiter"
)

// TestEnforced: what is in shadow acts in the policy that is reckoned with, and the policy in
// force is as it was.
func TestEnforced(t *testing.T) {
	for _, c := range []struct {
		mode, shadow string
		class        bool // a class is in shadow
		want         string
		acts         limiter.Mode // in truth
		judges       bool         // all is only judged
	}{
		{mode: "fair", shadow: "false", acts: limiter.Fair},
		{mode: "fair", shadow: "false", class: true, want: "fair", acts: limiter.Fair},
		{mode: "fair", shadow: "true", want: "fair", acts: limiter.Fair, judges: true},
		{mode: "fair", shadow: "cap", want: "cap", acts: limiter.Fair},
		{mode: "cap", shadow: "fair", class: true, want: "fair", acts: limiter.Cap},
		{mode: "cooperative", shadow: "true", want: "cooperative", acts: limiter.Cooperative, judges: true},
		{mode: "observe", shadow: "false", want: "fair", acts: limiter.Observe},
		{mode: "observe", shadow: "true", class: true, want: "fair", acts: limiter.Observe, judges: true},
		{mode: "observe", shadow: "cooperative", want: "cooperative", acts: limiter.Observe},
	} {
		conf := config.Default()
		conf.Throttle.Mode, conf.Throttle.Shadow, conf.Classes[1].Shadow = c.mode, c.shadow, c.class
		p, mode := Enforced(conf)
		if mode != c.want || mode != "" && p.Mode.String() != mode {
			t.Errorf("%+v: %q, %s", c, mode, p.Mode)
		}
		if p.Shadow || mode != "" && p.Classes[1].Budget.Shadow {
			t.Errorf("%+v: something is still in shadow", c)
		}
		if got := Limits(conf); got.Mode != c.acts || got.Shadow != c.judges || got.Classes[1].Budget.Shadow != c.class {
			t.Errorf("%+v: in truth %s, shadow %t", c, got.Mode, got.Shadow)
		}
	}
}
