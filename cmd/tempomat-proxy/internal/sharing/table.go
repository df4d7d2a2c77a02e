package sharing

import (
	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
)

// makers are the ways of sharing, each by its value of coordination.kind. What makes a
// Sharer opens nothing but files of keys and of secrets.
func makers() map[string]func(*config.Config, *zap.Logger) (limiter.Sharer, error) {
	return map[string]func(*config.Config, *zap.Logger) (limiter.Sharer, error){
		"smockron": newSmockron,
		"redis":    newRedis,
		"gossip":   newGossip,
	}
}

// reloader is a Sharer that goes by something that a reload may change.
type reloader interface {
	// Reload takes it over: the policy, or files that are read again. If that fails, it
	// goes on as before.
	Reload(p limiter.Policy) error
}
