package main

import (
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// asMaster in the environment makes the test program run as tempomat-master, with the race detector if the tests use
// it.
const asMaster = "TEMPOMAT_TEST=master"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asMaster) {
		main() // which exits
	}
	goleak.VerifyTestMain(m)
}
