//go:build race

package limiter

// raceEnabled says that the tests run ten times slower.
const raceEnabled = true
