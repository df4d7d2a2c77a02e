package daemon

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLog makes a log of lines of JSON, in which nothing that a client chose does anything in a
// terminal. Writes to out must be safe for concurrent use.
func NewLog(out zapcore.WriteSyncer, from zapcore.LevelEnabler) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), plainJSON{out}, from))
}

// SetLevel sets a level by its name, which the configuration has checked.
func SetLevel(to zap.AtomicLevel, name string) {
	if level, err := zapcore.ParseLevel(name); err == nil {
		to.SetLevel(level)
	}
}
