package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes the garbage collector run less often. A world produces much garbage but keeps only a few
// megabytes, and collection took a quarter of the CPU time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
