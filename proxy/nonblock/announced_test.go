//go:build unix && !(linux && (amd64 || arm64) && !race)

package nonblock_test

// announced: the calls are told to the runtime, and may allocate.
const announced = true
