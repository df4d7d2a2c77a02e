package telemetry

import "time"

// Recorders are several, which are told in turn.
type Recorders []Recorder

// Note implements Recorder.
func (rs Recorders) Note(now time.Time, r *Record) {
	for _, one := range rs {
		one.Note(now, r)
	}
}
