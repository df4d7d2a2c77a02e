//go:build !race

package limiter

// raceEnabled says that the tests run at full speed.
const raceEnabled = false
