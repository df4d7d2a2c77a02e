package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func parse(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), "t.yaml", env)
	testkit.Must(t, err)
	return c
}

func TestNothingGivenIsDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# only this\n", "---\n", "{}", "null", "throttle:\n"} {
		testkit.Same(t, Default(), parse(t, text), "%q", text)
	}
}

func TestHashMaxLen(t *testing.T) {
	for text, want := range map[string]int{
		"hashMaxLen: 100":                             1024,
		"hashMaxLen: 1000":                            4000,
		"hashMaxLen: 524288":                          4 * 524288,
		"{hashMaxLen: 1000, classes: {slash16: off}}": 3000,
		"{classes: {a: {path: true, share: 1}}, hashMaxLen: 1000}": 5000,
	} {
		testkit.Same(t, want, parse(t, text).Table.Size, "%s: table.size", text)
	}
	testkit.Same(t, 2048, parse(t, "hashMaxLen: 1000", "TEMPOMAT_TABLE_SIZE=2048").Table.Size, "table.size of the environment")
}

func TestLoadFailures(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not-exist", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	testkit.WriteFile(t, large, strings.Repeat("# comment\n", 200_000), 0o600)
	if _, err := Load(large, nil); err == nil || err.Error() != large+": is larger than 1 MiB" {
		t.Errorf("got %v", err)
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		b.WriteString(strings.Repeat("x", i+1) + ": 1\n")
	}
	_, err := Parse([]byte(b.String()), "t.yaml", nil)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 101 || lines[100] != "and 50 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestChanged(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           []Change
	}{
		{"nothing", "cpuCount: 2", "cpuCount: 2.0", nil},
		{"forms of the same", "slash32Share: 0.3", "classes: {slash32: {share: 0.3}}", nil},
		{"scalar", "", "throttle: {maxHold: 1m}", []Change{{Key: "throttle.maxHold", Old: "30s", New: "1m"}}},
		{"restart", "", "{listen: ':80', backend: 'http://b', table: {size: 2048}, admin: {listen: off}}", []Change{
			{Key: "listen", Old: ":8888", New: ":80", NeedsRestart: true},
			{Key: "backend.url", Old: "http://127.0.0.1:80", New: "http://b"},
			{Key: "table.size", Old: "65536", New: "2048", NeedsRestart: true},
			{Key: "admin.listen", Old: "unix:/run/tempomat/admin.sock", New: "off", NeedsRestart: true},
		}},
		{"limits", "limits: []", "limits: [{name: a, rate: 5/min, burst: 8}]",
			[]Change{{Key: "limits", Old: "", New: "a, rate 5/min, burst 8"}}},
		{"exempt", "exempt: [{path: /a}]", "exempt: [{path: /a, cidr: 10.0.0.0/8}]",
			[]Change{{Key: "exempt", Old: "path /a", New: "cidr 10.0.0.0/8, path /a"}}},
		{"all that a site has", "sites: {a: {hosts: [a.example]}}",
			"sites: {a: {hosts: [a.example], share: 3}, others: {share: 2}}",
			[]Change{{Key: "sites", Old: "a (hosts a.example)", New: "a (hosts a.example, share 3); others: share 2"}}},
		{"all that a domain has", smockronWith("maxDelay: 5s"), smockronWith("maxDelay: 2s, identifier: address, status: 503"), []Change{{
			Key: "coordination.smockron.domains", Old: "d, slash32, charge requests",
			New: "d, slash32, charge requests, maxDelay 2s, identifier address, status 503", NeedsRestart: true,
		}}},
		{"class's keys", "", "classes: {slash24: {share: 0.3, cap: true}}", []Change{{Key: "classes.slash24", Old: "share 0.25, burst 30s", New: "share 0.3, burst 30s, cap"}}},
		{"classes come and go", "classes: {slash16: off, a: {path: true, share: 1}}",
			"classes: {slash24: off, b: {header: X-B, share: 0.5, burst: 0s, shadow: true}}", []Change{
				{Key: "classes.slash24", Old: "share 0.25, burst 30s", New: "off"},
				{Key: "classes.slash16", Old: "off", New: "share 0.5, burst 30s"},
				{Key: "classes.a", Old: "share 1, burst 30s, path", New: "off"},
				{Key: "classes.b", Old: "off", New: "share 0.5, burst 0s, shadow, header X-B"},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Same(t, tt.want, Changed(parse(t, tt.old), parse(t, tt.new)), "changes")
		})
	}
}

// TestReloaded: changes that need a restart are relative to the configuration at the program's start.
func TestReloaded(t *testing.T) {
	begun := parse(t, "table: {size: 2048}")
	other := parse(t, "{table: {size: 4096}, cpuCount: 2}")
	size := Change{Key: "table.size", Old: "2048", New: "4096", NeedsRestart: true}
	cpus := Change{Key: "cpuCount", Old: "0", New: "2"}
	for name, c := range map[string]struct {
		before, after *Config
		want          []Change
	}{
		"something else":     {begun, other, []Change{cpus, size}},
		"the same again":     {other, other, []Change{size}},
		"what it began with": {other, begun, []Change{{Key: "cpuCount", Old: "2", New: "0"}}},
	} {
		testkit.Same(t, c.want, Reloaded(Changed(c.before, c.after), Changed(begun, c.after)), "%s", name)
	}
}

// smockronWith returns a configuration with a domain that also has the given keys.
func smockronWith(more string) string {
	return "coordination: {kind: smockron, smockron: {master: a, domains: [{domain: d, class: slash32, charge: requests, " + more + "}]}}"
}

// TestEveryFieldHasAKey: every field of Config can be set with the key of its name. If any leaf of the struct
// changes, Changed reports that key.
func TestEveryFieldHasAKey(t *testing.T) {
	var leaves func(v reflect.Value, path string, found func(reflect.Value, string))
	leaves = func(v reflect.Value, path string, found func(reflect.Value, string)) {
		if v.Kind() != reflect.Struct {
			found(v, path)
			return
		}
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, found)
		}
	}
	c := Default()
	leaves(reflect.ValueOf(c).Elem(), "", func(v reflect.Value, path string) {
		if path == ".Warnings" || path == ".Coordination.Redis.Salt" {
			return // an old key that is still read, but has no effect
		}
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString("changed")
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		default:
			t.Fatalf("%s: unknown kind %v", path, v.Kind())
		}
		changes := Changed(Default(), c)
		if len(changes) == 0 || !strings.Contains(strings.ToLower(path), strings.ToLower("."+strings.TrimSuffix(changes[0].Key, ".slash32"))) {
			t.Errorf("%s has another key, or none: %v", path, changes)
		}
		v.Set(before)
	})
}

func TestDescribeListsEveryKey(t *testing.T) {
	var b strings.Builder
	c := Default()
	c.Describe(&b, 3, true)
	lines := strings.Split(b.String(), "\n")
	for i, s := range canonical(newDraft(c)) {
		if fields := strings.Fields(lines[i]); len(fields) < 2 || fields[0] != s.Path ||
			s.Value.Text() != "" && !strings.Contains(lines[i], "  "+s.Value.Text()) {
			t.Errorf("%s is reported as %q", s.Path, lines[i])
		}
	}
	for _, want := range []string{
		"backend.workers 0 (found)", "cpuCount 0 (this machine's: 3)", "exempt none",
	} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Join(strings.Fields(l), " ") == want }) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestBackendIsGiven: a file without a backend is rejected, because it is truncated or isn't the intended file.
func TestBackendIsGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	for _, tc := range []struct {
		text, env string
		ok        bool
	}{
		{"", "", false}, {"# backend: http://a", "", false}, {"null", "", false}, {"{}", "", false}, {"throttle:", "", false},
		{"backend: {workers: 5}", "", false}, {"", "TEMPOMAT_BACKEND_WORKERS=5", false},
		{"backend: http://a", "", true}, {"backend: {url: 'http://a'}", "", true}, {"", "TEMPOMAT_BACKEND=http://a", true},
		{"", "TEMPOMAT_BACKEND_URL=http://a", true},
	} {
		testkit.WriteFile(t, file, tc.text, 0o600)
		_, err := Load(file, []string{tc.env})
		if want := file + ": backend: is given neither"; tc.ok != (err == nil) || !tc.ok && !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %q: %v", tc.text, tc.env, err)
		}
	}
	if _, err := Load("", nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

// TestBackendWithAZone: the stored URL can be parsed again, because % is escaped in it.
func TestBackendWithAZone(t *testing.T) {
	const link = "http://[fe80::1%25eth0]:8080"
	text, err := parseBackendURL(link + "/")
	if err != nil || text != link {
		t.Fatalf("%q, %v; want %q", text, err, link)
	}
	testkit.Same(t, "fe80::1%eth0", (Backend{URL: text}).Parsed().Hostname(), "host")
}

// TestIsServedAt: a listener matches a backend with the same port and address. If the listener is on all addresses,
// it matches loopback.
func TestIsServedAt(t *testing.T) {
	for _, tc := range []struct {
		listen, backend string
		is              bool
	}{
		{":80", "http://127.0.0.1", true}, {":80", "http://127.0.0.1:81", false}, {":443", "https://localhost", true}, {":80", "https://localhost", false},
		{"[::]:80", "http://127.0.0.1", true}, {"[::]:80", "http://[::1]", true}, {"0.0.0.0:80", "http://127.0.0.1", true}, {"0.0.0.0:80", "http://[::1]", false},
		{":80", "http://192.0.2.2", false}, {":80", "http://other.example", false},
		{"192.0.2.1:80", "http://192.0.2.1", true}, {"192.0.2.1:80", "http://127.0.0.1", false}, {"127.0.0.1:80", "http://192.0.2.1", false},
		{"127.0.0.1:80", "http://127.0.0.2", false}, {"127.0.0.2:80", "http://127.0.0.2", true}, {"127.0.0.1:80", "http://localhost", true},
		{":80", "http://0.0.0.0", true}, {"127.0.0.1:80", "http://[::]", true}, {"[::1]:80", "http://0.0.0.0", true}, {"192.0.2.1:80", "http://0.0.0.0", false},
		{"site.example:80", "http://site.example", true}, {":80", "http://[::ffff:127.0.0.1]", true},
		{"unix:/run/a", "unix:/run/a", true}, {"unix:/run/a", "unix:/run/b", false}, {"unix:/run/a", "http://127.0.0.1", false}, {":80", "unix:/run/a", false},
	} {
		testkit.Same(t, tc.is, (Backend{URL: tc.backend}).IsServedAt(tc.listen), "%s is served at %s", tc.backend, tc.listen)
	}
}

// TestHosts: a host is stored as it appears in requests, or rejected.
func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"Shop.Example":      "shop.example",
		"shop.example.":     "shop.example",
		"*.shop.example":    "*.shop.example",
		"192.0.2.1":         "192.0.2.1",
		"[192.0.2.1]":       "192.0.2.1",
		"2001:DB8:0::1":     "[2001:db8::1]",
		"[2001:db8::1]":     "[2001:db8::1]",
		"[fe80::1%eth0]":    "",
		"a..":               "",
		"a..b":              "",
		".a":                "",
		"*.":                "",
		"*":                 "",
		"shop.example:8080": "",
		"*.[::1]":           "",
		"bücher.example":    "",
	} {
		got, err := hostPattern().Parse(text)
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

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
