package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFirstMastersFile: the first master's configuration is taken as it is.
func TestFirstMastersFile(t *testing.T) {
	const file = `server:
  listen: "0.0.0.0"
datastore:
  host: localhost
domains:
  default:
    interval: 1000
    burst: 10
  api:
    rate: 10 per minute
    burst: "30s"
  quoted:
    rate: "100/15min"
    burst: "20"
stats:
  host: localhost
  prefix: smockron.
`
	got, err := parseMaster([]byte(file), "default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultMaster()
	want.Listen = MasterAddress{"tcp://0.0.0.0:10004", "tcp://0.0.0.0:10005"}
	want.Store = "redis://localhost:6379"
	want.Statsd = Statsd{Host: "localhost", Port: 8125, Prefix: "smockron."}
	rule := func(interval, burst time.Duration) []MasterRule {
		return []MasterRule{{Rule: "bucket", Interval: interval, Burst: burst}}
	}
	want.Domains = []MasterDomain{
		{"default", rule(time.Second, 10*time.Second)},
		{"api", rule(6*time.Second, 30*time.Second)},
		{"quoted", rule(9*time.Second, 180*time.Second)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMasterFile(t *testing.T) {
	const file = `listen: tcp://10.0.0.1:7000
store: rediss://user:secret@redis.example/3
maxSkew: 5s
queue: 1000
identifiers: 5000
domains:
  free:
  www.slash32: {rule: credit, cpus: 0.2}
  api:
    rules:
      - {rule: history, rate: 5/sec, burst: 20}
      - {rate: 1000/hour, burst: 100}
      - {rule: credit, cpus: 1, burst: 10s, memory: 1m}
statsd: {host: 127.0.0.1, port: 9125}
metrics: ":9104"
admin: {listen: unix:/run/m.sock}
log: {level: debug, accounting: 5}
`
	got, err := parseMaster([]byte(file), "master.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	got.Describe(&b)
	if strings.Contains(b.String(), "secret") {
		t.Errorf("the password is shown:\n%s", b.String())
	}
	golden(t, "../testdata/config/master.txt", b.String())
	if changes := ChangedMaster(got, got); len(changes) > 0 {
		t.Errorf("differs from itself: %v", changes)
	}
	other := *got
	other.Queue, other.MaxSkew = 2000, time.Second
	want := []Change{
		{Key: "maxSkew", Old: "5s", New: "1s"},
		{Key: "queue", Old: "1000", New: "2000", NeedsRestart: true},
	}
	if diff := cmp.Diff(want, ChangedMaster(got, &other)); diff != "" {
		t.Errorf("changes, -want +got:\n%s", diff)
	}
}

func TestBadMasterFile(t *testing.T) {
	const file = `listen: x:99999
server: {listen: 0.0.0.0}
datastore: {host: "ftp://x"}
maxSkew: 5
domains:
  "with blank": {rate: 1/sec, burst: 1}
  a: {rate: 1/week, burst: 1}
  b: {rate: 1/sec}
  c: {rate: 1/sec, interval: 1000, burst: 1}
  d: {rule: history, rate: 1/sec, burst: 100000}
  e: {rule: credit, rate: 1/sec}
  f: {rule: credit}
  g: {rule: credit, cpus: 1, burst: 10}
  h: {rules: 5}
  i: {rules: [], rate: 1/sec}
  j: 5/sec
  k: {burst: 5}
  l: {rate: 5/sec, burst: -1, colour: red}
  m: {rate: 3000/sec, burst: 10}
  n: {rate: 5/sec, burst: lots}
stats: {host: "a b", port: 0}
logs: {}
`
	_, err := parseMaster([]byte(file), "master.yaml")
	if _, ok := errors.AsType[Faults](err); !ok {
		t.Fatalf("got %v", err)
	}
	golden(t, "../testdata/config/master.err", err.Error()+"\n")
	if _, err := parseMaster(nil, "empty.yaml"); err == nil || !strings.Contains(err.Error(), "has no domains") {
		t.Errorf("an empty file: %v", err)
	}
}

func FuzzParseMaster(f *testing.F) {
	f.Add([]byte("domains: {a: {rate: 5/sec, burst: 10}}"))
	f.Add([]byte("domains: {a: {rules: [{rule: credit, cpus: 1}, {rule: history, interval: 1000, burst: 10s}]}}\nstore: x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMaster(data, "f")
		if err != nil {
			return
		}
		for _, d := range m.Domains {
			for _, r := range d.Rules {
				if r.Rule != "credit" && (r.Interval < time.Millisecond || r.Burst < time.Millisecond) || r.Rule == "credit" && !(r.CPUs > 0) {
					t.Errorf("%q made %+v", data, r)
				}
			}
		}
		m.Describe(&strings.Builder{})
	})
}
