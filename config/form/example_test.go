package form_test

import (
	"fmt"
	"os"
	"time"

	"tempomat/config/form"
)

// A table of settings says where each key goes and what it may be. All that is wrong
// with a file, and with the environment over it, is told at once.
func Example() {
	mode, hold := "fair", 30*time.Second
	table := []form.Setting{
		{Path: "mode", Value: form.Choice("fair", "cap").In(&mode), Doc: "How debt is acted on."},
		{Path: "limits.hold", Value: form.Duration(0, time.Hour).In(&hold), Doc: "The longest delay."},
	}
	form.WriteReference(os.Stdout, table[1:])

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
	fmt.Println()
	read("mode: CAP\nlimits: {hold: 5s}", "TEMPOMAT_LIMITS_HOLD=7s")
	read("mods: cap\nlimits:\n  hold: 5", "TEMPOMAT_MODE=unfair")
	// Output:
	// #### `limits.hold`
	//
	// The longest delay.
	//
	// `0s` to `1h`; default `30s`
	//
	// cap 7s
	// t.yaml:1: mods: unknown key; did you mean "mode"?
	// t.yaml:3: limits.hold: 5: has no unit; write for example 5s or 5ms
	// environment: TEMPOMAT_MODE: unfair: must be fair or cap
}
