package main

import (
	"context"
	"time"
)

// saveRegularly saves every so often until the context ends, and then once more. Of failures
// only the first is told.
func saveRegularly(ctx context.Context, every time.Duration, save func() error, failed func(error)) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	told := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticks.C:
		}
		if err := save(); err != nil && !told {
			told = true
			failed(err)
		}
	}
}
