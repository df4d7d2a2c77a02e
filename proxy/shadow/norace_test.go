//go:build !race

package shadow

// raceEnabled says that the tests run at full speed.
const raceEnabled = false
