package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func TestChangedMaster(t *testing.T) {
	old := DefaultMaster()
	if changes := ChangedMaster(old, old); len(changes) > 0 {
		t.Errorf("differs from itself: %v", changes)
	}
	other := *old
	other.Metrics, other.MaxSkew = ":9105", time.Second
	want := []Change{
		{Key: "maxSkew", Old: "10s", New: "1s"},
		{Key: "metrics", Old: "", New: ":9105", NeedsRestart: true},
	}
	testkit.Same(t, want, ChangedMaster(old, &other), "changes")
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
logs: {}
`
	_, err := parseMaster([]byte(file), "master.yaml")
	if _, ok := errors.AsType[Faults](err); !ok {
		t.Fatalf("got %v", err)
	}
	testkit.Golden(t, *update, "../testdata/config/master.err", err.Error()+"\n")
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
