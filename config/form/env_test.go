package form

import (
	"testing"

	"tempomat/internal/testkit"
)

func TestVariable(t *testing.T) {
	for path, want := range map[string]string{
		"listen":                    "TEMPOMAT_LISTEN",
		"cpuCount":                  "TEMPOMAT_CPU_COUNT",
		"throttle.maxHeldPerClient": "TEMPOMAT_THROTTLE_MAX_HELD_PER_CLIENT",
		"classes.slash32.share":     "TEMPOMAT_CLASSES_SLASH32_SHARE",
		"classes.userAgent.burst":   "TEMPOMAT_CLASSES_USER_AGENT_BURST",
		"classes.my-API_key.share":  "TEMPOMAT_CLASSES_MY_API_KEY_SHARE",
	} {
		testkit.Same(t, want, Variable(path), "%s", path)
	}
}
