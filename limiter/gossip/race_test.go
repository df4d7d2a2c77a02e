//go:build race

package gossip

// raceEnabled says that the tests run ten times slower.
const raceEnabled = true
