//go:build race

package shadow

// raceEnabled says that the tests run ten times slower.
const raceEnabled = true
