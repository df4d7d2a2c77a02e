package replay

import (
	"testing"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/internal/sim"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// shipped is what a configuration that says nothing makes, for two CPUs.
func shipped(t testing.TB, mode limiter.Mode) Setup {
	t.Helper()
	s := Setup{
		Policy: sim.Policy(mode, 2, 0), TableSize: sim.TableSize,
		CPUs: 2, Workers: 16, Measures: true,
	}
	s.Rules = rulesFor(t, s.CPUs)
	return s
}

func rulesFor(t testing.TB, cpus float64) (rules lifecycle.Rules) {
	t.Helper()
	var err error
	rules.Classifier, err = classify.New(classify.Config{Classes: sim.Classes(), AddressHeader: classify.NoHeader})
	if err != nil {
		t.Fatal(err)
	}
	if rules.Standing, err = standing.New([16]byte{1}, sim.Standing()); err != nil {
		t.Fatal(err)
	}
	rules.Meter = cpuaccount.NewMeter(cpuaccount.Corrected, cpus, 0)
	return rules
}
