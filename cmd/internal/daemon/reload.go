package daemon

import (
	"errors"

	"go.uber.org/zap"

	"tempomat/config"
)

// LogRejected logs what is wrong with a configuration that was read again, fault by fault.
func LogRejected(log *zap.Logger, err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		log.Error("configuration rejected; the running one stays", zap.Error(err))
		return
	}
	for _, f := range faults {
		log.Error("configuration rejected; the running one stays", zap.String("fault", f.Error()),
			zap.Int("line", f.Line), zap.String("key", f.Key))
	}
}

// LogChanges logs what has become of keys that were changed.
func LogChanges(log *zap.Logger, changes []config.Change) {
	for _, c := range changes {
		fields := []zap.Field{zap.String("key", c.Key), zap.String("old", c.Old), zap.String("new", c.New)}
		if c.NeedsRestart {
			log.Warn("changed, but only a restart can put it in force", fields...)
			continue
		}
		log.Info("changed", fields...)
	}
}
