//go:build !race

package book

const raceDetector = false
