package form_test

import (
	"fmt"
	"time"

	"tempomat/config/form"
)

// A table of settings contains the field and the allowed values of each key. All faults in a file, and in the
// environment that overrides it, are reported at once.
func Example() {
	mode, hold := "fair", 30*time.Second
	table := []form.Setting{
		{Path: "mode", Value: form.Choice("fair", "cap").In(&mode)},
		{Path: "limits.hold", Value: form.Duration(0, time.Hour).In(&hold)},
	}

	read := func(file string, env ...string) {
		r := form.NewReader()
		r.Mapping(form.Source{File: "t.yaml"}, r.Document([]byte(file), "t.yaml"), "", table)
		r.Environment(env, table, func(form.Setting) string { return "" })
		if err := r.Sorted(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(mode, hold)
	}
	read("mode: CAP\nlimits: {hold: 5s}", "TEMPOMAT_LIMITS_HOLD=7s")
	read("mods: cap\nlimits:\n  hold: 5", "TEMPOMAT_MODE=unfair")
	// Output:
	// cap 7s
	// t.yaml:1: mods: unknown key; did you mean "mode"?
	// t.yaml:3: limits.hold: 5: has no unit; write, for example, 5s or 5ms
	// environment: TEMPOMAT_MODE: unfair: must be fair or cap
}
