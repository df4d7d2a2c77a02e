package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes the garbage collector run less often: a world makes much garbage and keeps a few megabytes,
// and collecting it took a quarter of the CPU time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
