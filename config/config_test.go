package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var cmpPrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func parse(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), "t.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingGivenIsDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# only this\n", "---\n", "{}", "null", "throttle:\n"} {
		if diff := cmp.Diff(Default(), parse(t, text), cmpPrefix); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// The original's sample means in the modern struct what it meant there.
func TestOriginalSample(t *testing.T) {
	got, err := Load("../testdata/config/good/tempomat.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Log.DelayThreshold = 100 * time.Millisecond
	want.Backend.URL = "http://localhost:80"
	want.Listen = []Listener{{Address: ":8888"}}
	want.Graphite.Address = "localhost:2003"
	want.Graphite.Prefix = "some.place.prepend.{hostname}"
	want.TrustedProxies = []Proxies{{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}
	want.CPUCount = 4
	want.Table.Size = minTable // 100 × 4 is below it
	if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFullFile(t *testing.T) {
	got, err := Load("../testdata/config/good/full.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = []Listener{{Address: ":8080"}, {Address: "[::1]:8081"}, {Address: "unix:/run/tempomat/proxy.sock"}}
	want.Backend.URL, want.Backend.Timeout = "unix:/run/apache/site.sock", 90*time.Second
	want.TrustedProxies = []Proxies{
		{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, {Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
		{Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}}, {Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
	}
	want.CPUCount, want.AddressHeader, want.Underscores = 2.5, "Forwarded", true
	throttle := &want.Throttle
	throttle.Mode, throttle.Shadow, throttle.MaxHold = "cap", true, 10*time.Second
	throttle.Memory = 10 * time.Minute
	want.Classes = []Class{
		{Name: "slash32", Share: 0.2, Burst: 10 * time.Second, Shadow: true},
		{Name: "slash24", Share: 0.3, Burst: 30 * time.Second},
		{Name: "userAgent", Share: 0.1, Burst: 5 * time.Minute, Cap: true},
		{Name: "apiKey", Header: "X-Api-Key", Share: 0.2},
		{Name: "expensive", Path: true, Share: 0.3, Burst: 30 * time.Second},
	}
	want.Exempt = []Exemption{
		{CIDR: netip.MustParsePrefix("10.0.0.0/8")}, {Path: "/healthz"},
		{CIDR: netip.MustParsePrefix("192.0.2.0/24"), Path: "/static/*"},
		{Methods: []string{"OPTIONS", "PURGE"}, Host: "*.example.com"},
		{Header: "X-Monitor-Key", Secret: "/etc/tempomat/monitor.secret"},
	}
	want.Cost.Source, want.Table.Size = "header", 4194304
	timeouts := &want.Timeouts
	timeouts.Body = 30 * time.Second
	timeouts.Idle, timeouts.Upgrade, timeouts.Drain = time.Hour, 90*time.Second, 0
	buffer := &want.Buffer
	buffer.Request, buffer.Response, buffer.Memory, buffer.Directory = 2<<30, 0, 1_000_000, "/srv/tmp"
	admin := &want.Admin
	admin.Listen, admin.Web, admin.Token, admin.Hosts = "", "127.0.0.1:8880", "/etc/tempomat/admin.token", []string{"status.example.org"}
	graphite := &want.Graphite
	graphite.Address, graphite.Prefix, graphite.Interval = "graphite.example:2003", "web.{hostname}.tempomat", 10*time.Second
	want.ErrorPages = ErrorPages{Directory: "/etc/tempomat/errors", Languages: []string{"de", "pt-BR"}}
	want.RobotsTxt = "/etc/tempomat/robots.txt"
	want.Metrics = ":9105"
	want.Log.Level, want.Log.Access, want.Log.Format, want.Log.DelayThreshold = "warn", "all", "combined", 0
	want.Warnings = got.Warnings // the texts beside the file have them
	if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
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
		if got := parse(t, text).Table.Size; got != want {
			t.Errorf("%s: table.size %d, want %d", text, got, want)
		}
	}
	if got := parse(t, "hashMaxLen: 1000", "TEMPOMAT_TABLE_SIZE=2048").Table.Size; got != 2048 {
		t.Errorf("the environment's table.size is lost: %d", got)
	}
}

func TestLoadFailures(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not-exist", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# comment\n", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
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
			"sites: {a: {hosts: [a.example], exempt: [{path: /pay}, {path: /ping}]}, others: {share: 2}}",
			[]Change{{Key: "sites", Old: "a (hosts a.example)", New: "a (hosts a.example, exempt path /pay; path /ping); others: share 2"}}},
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
			if diff := cmp.Diff(tt.want, Changed(parse(t, tt.old), parse(t, tt.new))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestReloaded: what waits for a restart is held against what the program began with.
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
		if diff := cmp.Diff(c.want, Reloaded(Changed(c.before, c.after), Changed(begun, c.after))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// smockronWith is a configuration with a domain that has more keys.
func smockronWith(more string) string {
	return "coordination: {kind: smockron, smockron: {master: a, domains: [{domain: d, class: slash32, charge: requests, " + more + "}]}}"
}

// Every field of Config is reached by some key: changing any leaf of the struct
// is a change that Changed tells.
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
			return // what was given in vain changes nothing; the key is an old one, and is still read
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
		if len(Changed(Default(), c)) == 0 {
			t.Errorf("no key for %s", path)
		}
		v.Set(before)
	})
}

func TestDescribeTellsEveryKey(t *testing.T) {
	var b strings.Builder
	c := Default()
	c.Describe(&b, 3, true)
	lines := strings.Split(b.String(), "\n")
	for i, s := range canonical(newDraft(c)) {
		if fields := strings.Fields(lines[i]); len(fields) < 2 || fields[0] != s.Path ||
			s.Value.Text() != "" && !strings.Contains(lines[i], "  "+s.Value.Text()) {
			t.Errorf("%s is told by %q", s.Path, lines[i])
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

// TestBackendIsGiven: a file that says nowhere where requests go was cut off, or is not meant.
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
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file, []string{tc.env})
		if want := file + ": backend: is not given"; tc.ok != (err == nil) || !tc.ok && !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %q: %v", tc.text, tc.env, err)
		}
	}
	if _, err := Load("", nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

// TestIsServedAt: a listener is met by its port, and by its address or, if it has all of them, by one of the machine's.
func TestIsServedAt(t *testing.T) {
	site := netip.MustParseAddr("192.0.2.1") // this machine's
	system := System{
		Find: func(host string) []netip.Addr {
			if host == "site.example" {
				return []netip.Addr{site}
			}
			return unasked().Find(host)
		},
		Own: func(a netip.Addr) bool { return a.IsLoopback() || a == site },
	}
	for _, tc := range []struct {
		listen, backend string
		is              bool
	}{
		{":80", "http://127.0.0.1", true}, {":80", "http://127.0.0.1:81", false}, {":443", "https://localhost", true}, {":80", "https://localhost", false},
		{"[::]:80", "http://127.0.0.1", true}, {"[::]:80", "http://[::1]", true}, {"0.0.0.0:80", "http://127.0.0.1", true}, {"0.0.0.0:80", "http://[::1]", false},
		{":80", "http://192.0.2.1", true}, {"[::]:80", "http://site.example", true}, {":80", "http://192.0.2.2", false}, {":80", "http://other.example", false},
		{"192.0.2.1:80", "http://site.example", true}, {"192.0.2.1:80", "http://127.0.0.1", false}, {"127.0.0.1:80", "http://192.0.2.1", false},
		{"127.0.0.1:80", "http://127.0.0.2", false}, {"127.0.0.2:80", "http://127.0.0.2", true}, {"127.0.0.1:80", "http://localhost", true},
		{":80", "http://0.0.0.0", true}, {"127.0.0.1:80", "http://[::]", true}, {"[::1]:80", "http://0.0.0.0", true}, {"192.0.2.1:80", "http://0.0.0.0", false},
		{"site.example:80", "http://192.0.2.1", true}, {":80", "http://[::ffff:127.0.0.1]", true},
		{"unix:/run/a", "unix:/run/a", true}, {"unix:/run/a", "unix:/run/b", false}, {"unix:/run/a", "http://127.0.0.1", false}, {":80", "unix:/run/a", false},
	} {
		if got := (Backend{URL: tc.backend}).IsServedAt(tc.listen, system); got != tc.is {
			t.Errorf("%s at %s: %t", tc.backend, tc.listen, got)
		}
	}
}
