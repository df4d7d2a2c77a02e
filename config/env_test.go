package config

import (
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestEnvironmentOverrides(t *testing.T) {
	file := `{backend: "http://file", throttle: {mode: cap}, slash32Share: 0.5, graphite: "localhost:2003",
		classes: {apiKey: {header: X-Key, share: 0.5}}}`
	c := parse(t, file,
		"TEMPOMAT_BACKEND=http://env:81", "TEMPOMAT_BACKEND_TIMEOUT=7s", "TEMPOMAT_THROTTLE_MODE=observe",
		"TEMPOMAT_LISTEN=:80, unix:/run/a.sock", "TEMPOMAT_TRUSTED_PROXIES=", "TEMPOMAT_CLASSES_SLASH32_SHARE=0.25",
		"TEMPOMAT_CLASSES_API_KEY_SHARE=1", "TEMPOMAT_CLASSES_SLASH16=off", "TEMPOMAT_GRAPHITE_ADDRESS=",
		"TEMPOMAT_ADMIN_LISTEN=", "TEMPOMAT_VECTORS_SMOCKRON=x", "TEMPOMAT_TEST_X=x", "HOME=/root", "TEMPOMATX=1",
		"TEMPOMAT_SERVICE_HOST=10.0.0.1", "TEMPOMAT_PORT=tcp://10.0.0.1:80", "TEMPOMAT_PORT_80_TCP_ADDR=10.0.0.1",
		"TEMPOMAT_ADMIN_SERVICE_PORT_HTTP=80", "TEMPOMAT_ADMIN_PORT=tcp://10.0.0.1:80")
	want := parse(t, `{backend: {url: "http://env:81", timeout: 7s}, throttle: {mode: observe},
		listen: [":80", "unix:/run/a.sock"], trustedProxies: [], admin: {listen: off},
		classes: {slash32: {share: 0.25}, slash16: off, apiKey: {header: X-Key, share: 1}}}`)
	testkit.Same(t, want, c, "the configuration")
}

func TestEnvironmentFaults(t *testing.T) {
	tests := []struct{ name, file, env, want string }{
		{"bad value", "", "TEMPOMAT_CPU_COUNT=-1",
			"environment: TEMPOMAT_CPU_COUNT: -1: must be 0 (as many as this machine has) or a number from 0.01 to 4096"},
		{"unknown", "", "TEMPOMAT_THROTLE_MODE=cap",
			"environment: TEMPOMAT_THROTLE_MODE: unknown variable; did you mean TEMPOMAT_THROTTLE_MODE?"},
		{"a port, and no URL as of Kubernetes", "", "TEMPOMAT_LISTEN_PORT=80 TEMPOMAT_ADMIN_PORT=81 TEMPOMAT_GRAPHITE_PORT=2003",
			"environment: TEMPOMAT_LISTEN_PORT: unknown variable; did you mean TEMPOMAT_LISTEN?\n" +
				"environment: TEMPOMAT_ADMIN_PORT: unknown variable; did you mean TEMPOMAT_ADMIN_HOSTS?\nenvironment: TEMPOMAT_GRAPHITE_PORT: unknown variable"},
		{"unknown, nothing like it", "", "TEMPOMAT_ZEBRA=1", "environment: TEMPOMAT_ZEBRA: unknown variable"},
		{"original key", "", "TEMPOMAT_SLASH32_SHARE=0.1", "environment: TEMPOMAT_SLASH32_SHARE: unknown variable; did you mean TEMPOMAT_CLASSES_SLASH32_SHARE?"},
		{"list of mappings", "", "TEMPOMAT_EXEMPT=/x", "environment: TEMPOMAT_EXEMPT: can't be set by a variable; set it in the file"},
		{"class that is off", "classes: {slash16: off}", "TEMPOMAT_CLASSES_SLASH16_SHARE=0.1",
			"environment: TEMPOMAT_CLASSES_SLASH16_SHARE: the class slash16 is switched off"},
		{"two forms", "", "TEMPOMAT_BACKEND=http://a TEMPOMAT_BACKEND_URL=http://b",
			"environment: TEMPOMAT_BACKEND_URL: TEMPOMAT_BACKEND sets the same key; keep only one of them"},
		{"circle", "listen: ':80'", "TEMPOMAT_BACKEND=http://127.0.0.1",
			"environment: TEMPOMAT_BACKEND: http://127.0.0.1: is the proxy's own address (listen :80): requests would loop"},
		{"no address", "", "TEMPOMAT_LISTEN=", `environment: TEMPOMAT_LISTEN: has no address; give at least one, such as ":8888"`},
		{"after the file's", "cpuCount: x", "TEMPOMAT_LOG_LEVEL=x",
			"t.yaml:1: cpuCount: x: must be 0 (as many as this machine has) or a number from 0.01 to 4096\n" +
				"environment: TEMPOMAT_LOG_LEVEL: x: must be debug, info, warn or error"},
		{"beside broken YAML", "a: [", "TEMPOMAT_LOG_LEVEL=x",
			"t.yaml:1: is not valid YAML, here or below: did not find expected node content\n" +
				"environment: TEMPOMAT_LOG_LEVEL: x: must be debug, info, warn or error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.file), "t.yaml", strings.Fields(tt.env))
			if err == nil {
				t.Fatal("no fault")
			}
			testkit.Same(t, tt.want, err.Error(), "faults")
		})
	}
}
