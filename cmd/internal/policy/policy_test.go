package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/internal/sim"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestSimulatedAsShipped: the simulator uses the settings of the default configuration. Its results therefore apply to
// these.
func TestSimulatedAsShipped(t *testing.T) {
	for mode, name := range map[limiter.Mode]string{limiter.Fair: "fair", limiter.Observe: "observe"} {
		for _, workers := range []int{0, 16} {
			for _, cpus := range []float64{1, 2, 8} {
				c := config.Default()
				c.Throttle.Mode, c.CPUCount, c.Backend.Workers = name, cpus, workers
				testkit.Same(t, Limits(c), sim.Policy(mode, cpus, workers), "%s, %g CPUs, %d workers: shipped (-), simulated (+)", name, cpus, workers)
			}
		}
	}
	c := config.Default()
	var classes []classify.Class
	for _, class := range c.Classes {
		classes = append(classes, classOf(class))
	}
	same := cmp.Comparer(func(a, b classify.Class) bool { return a == b })
	if diff := cmp.Diff(classes, sim.Classes(), same); diff != "" {
		t.Errorf("classes: - shipped, + simulated\n%s", diff)
	}
	testkit.Same(t, Robots(c, nil).Config, sim.Robots(), "robots: shipped (-), simulated (+)")
	testkit.Same(t, Standing(c), sim.Standing(), "standing: shipped (-), simulated (+)")
	if c.Throttle.Mode != "fair" || c.Cost.Source != "auto" || c.Table.Size != sim.TableSize {
		t.Errorf("shipped are mode %s, cost %s, table %d: these are not simulated",
			c.Throttle.Mode, c.Cost.Source, c.Table.Size)
	}
}
