package config

import (
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int64{
		"5/sec": 200, "1/sec": 1000, "10/min": 6000, "10 per minute": 6000, "100/15min": 9000, "100/15 min": 9000,
		"3/sec": 333, "7/sec": 143, " 2 / s ": 500, "1/day": 86_400_000, "1 per hour": 3_600_000, "1/500": 500, "1000/sec": 1, "2000/sec": 1,
		"1.5/sec": -1, "1 PER sec": -1, "1/week": -1, "3000/sec": -1, "0/sec": -1, "-1/sec": -1, "": -1, "5": -1, "5/": -1, "/sec": -1,
		"5/0sec": -1, "99999999999999999999/sec": -1, "1/99999999day": -1,
	} {
		rate, err := parseRate(text)
		got := int64(-1)
		if err == nil {
			got = rate.Interval().Milliseconds()
			if again, err := parseRate(rate.String()); again != rate || err != nil {
				t.Errorf("%q is printed as %s, and read as %v, %v", text, rate, again, err)
			}
		}
		if got != want {
			t.Errorf("%q: %v %v, want %d ms", text, got, err, want)
		}
	}
}

func TestParseBurst(t *testing.T) {
	for text, want := range map[string]int64{
		"10": 2000, " 10 ": 2000, "10s": 10_000, "1 min": 60_000, "sec": 1000,
		"0": -1, "-5": -1, "": -1, "lots": -1, "1.5": -1, "999999999999": -1,
	} {
		got, err := parseBurst(text, 200*time.Millisecond)
		if err != nil {
			got = -time.Millisecond
		}
		if got.Milliseconds() != want {
			t.Errorf("%q: %v %v, want %d ms", text, got, err, want)
		}
	}
}

func TestMasterAddress(t *testing.T) {
	for text, want := range map[string]MasterAddress{
		"master":                {"tcp://master:10004", "tcp://master:10005"},
		"0.0.0.0":               {"tcp://0.0.0.0:10004", "tcp://0.0.0.0:10005"},
		"tcp://10.0.0.1:7000":   {"tcp://10.0.0.1:7000", "tcp://10.0.0.1:7001"},
		":7000":                 {"tcp://*:7000", "tcp://*:7001"},
		"[::1]:7000":            {"tcp://[::1]:7000", "tcp://[::1]:7001"},
		"ipc:///run/m/smockron": {"ipc:///run/m/smockron", "ipc:///run/m/smockron.control"},
		"udp://x":               {}, "": {}, "tcp://": {}, "x:65535": {}, "x:abc": {}, "x:0": {}, "a b": {}, "a/b": {}, "ipc://relative": {},
	} {
		got, err := parseMasterAddress(text)
		if got != want || (err != nil) != (want == MasterAddress{}) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
}
