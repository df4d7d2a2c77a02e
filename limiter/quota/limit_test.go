package quota

import (
	"errors"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

func TestLimits(t *testing.T) {
	older := func(limit, duration, interval any) Limit {
		p := func(v any) *float64 {
			if v == nil {
				return nil
			}
			return new(v.(float64))
		}
		return Limit{Name: "k", Max: p(limit), Duration: p(duration), MinInterval: p(interval)}
	}
	bucket := func(size, rate, drip float64) Limit {
		return Limit{Name: "k", Type: "bucket", Size: &size, DripRate: &rate, DripSize: &drip}
	}
	for _, c := range []struct {
		limit  Limit
		factor float64
		want   Bucket
		fault  string
	}{
		{older(10.0, 10_000.0, nil), 1, Bucket{10, 1000, 1}, ""},
		{older(7.0, 10_000.0, nil), 1, Bucket{7, 1429, 1}, ""},
		{older(1.0, 2000.0, nil), 1, Bucket{1, 2000, 1}, ""},
		{older(3.0, 1000.0, nil), 1, Bucket{3, 333, 1}, ""},
		{older(4096.0, 2000.0, nil), 1, Bucket{4096, 1, 2}, ""},
		{older(300.0, 3_600_000.0, nil), 1, Bucket{300, 12_000, 1}, ""},
		{older(10.0, 5000.0, 1000.0), 1, Bucket{10, 1000, 2}, ""},
		{older(10.0, 60_000.0, 1000.0), 1, Bucket{10, 6000, 1}, ""},
		{older(2.0, 1000.0, 5000.0), 1, Bucket{2, 5000, 10}, ""},
		{older(1.5, 3000.0, nil), 1, Bucket{2, 2000, 1}, ""},
		{older(10.0, 10_000.0, -1.0), 1, Bucket{10, 1000, 1}, ""},
		{older(nil, nil, 0.4), 1, Bucket{1, 1, 1}, ""},
		{older(5.0, nil, 1500.5), 1, Bucket{1, 1501, 1}, ""},
		{older(nil, nil, nil), 1, Bucket{}, ""},
		{older(5.0, nil, nil), 1, Bucket{}, ""},
		{older(nil, 5.0, nil), 1, Bucket{}, ""},
		{older(0.0, 0.0, 7.0), 1, Bucket{}, ""},
		{older(nil, nil, 0.0), 1, Bucket{}, ""},
		{older(0.0, -5.0, nil), 1, Bucket{}, "Invalid rate limit k: duration is negative (-5)"},
		{older(0.0, 5.0, nil), 1, Bucket{}, "Invalid rate limit k: max is less than 1 (0)"},
		{older(nil, nil, -1.0), 1, Bucket{}, "Invalid rate limit k: minInterval is negative (-1)"},
		{bucket(1, 1000, 1), 0.3, Bucket{4, 1000, 1}, ""},
		{bucket(10, 1000, 1), 3, Bucket{4, 1000, 1}, ""},
		{bucket(10, 0.5e3, 1.5), 100, Bucket{1, 500, 2}, ""},
		{bucket(1e300, 1e300, 1), 1e-300, Bucket{Most, Most, 1}, ""},
		{bucket(0, 0, 0), 0, Bucket{}, ""},
		{bucket(0.5, 0, 0), 1, Bucket{}, "Invalid rate limit k: size is less than 1 (0.5)"},
		{bucket(1, -1, 0), 1, Bucket{}, "Invalid rate limit k: dripRate is less than 1 (-1)"},
		{bucket(1, 1, 1e-7), 1, Bucket{}, "Invalid rate limit k: dripSize is less than 1 (1e-7)"},
		{bucket(1, 1, 1e-6), 1, Bucket{}, "Invalid rate limit k: dripSize is less than 1 (0.000001)"},
		{bucket(-1e21, 1, 1), 1, Bucket{}, "Invalid rate limit k: size is less than 1 (-1e+21)"},
		{bucket(math.Inf(-1), 1, 1), 1, Bucket{}, "Invalid rate limit k: size is less than 1 (-Infinity)"},
		{bucket(-1.5e21, 1, 1), 1, Bucket{}, "Invalid rate limit k: size is less than 1 (-1.5e+21)"},
		{bucket(1, 1, 1), -0.5, Bucket{}, "Rate limit factor is zero or negative: -0.5"},
		{bucket(1, 1, 1), math.NaN(), Bucket{}, "Rate limit factor is zero or negative: NaN"},
	} {
		got, err := c.limit.Bucket(c.factor)
		fault := ""
		if err != nil {
			fault = err.Error()
			if _, ok := errors.AsType[*Invalid](err); !ok {
				t.Errorf("%T", err)
			}
		}
		if got != c.want || fault != c.fault {
			t.Errorf("%+v, factor %v: %v %q, want %v %q", c.limit, c.factor, got, fault, c.want, c.fault)
		}
	}
}

func TestDraftFields(t *testing.T) {
	b := Bucket{Size: 10, DripRate: 1500, DripSize: 4}
	h := http.Header{}
	setDraftFields(h,
		b.quota(`log "in"`, Status{Remaining: 3, FullReset: 2500 * time.Millisecond}),
		Bucket{}.quota("none", Bucket{}.Status(BucketState{}, 0, 1, false)),
		creditQuota("cpu\né", limiter.Balance{Rate: 0.5, Burst: 30, Level: -2}),
	)
	want := http.Header{
		"RateLimit-Policy": {`"log \"in\"";q=10;qu="requests";w=5, "cpu??";q=30000;qu="cpu-milliseconds";w=60`},
		"RateLimit":        {`"log \"in\"";r=3;t=3, "cpu??";r=0;t=64`},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h = http.Header{}
	if setDraftFields(h, quota{name: "none"}); len(h) != 0 {
		t.Errorf("%v", h)
	}
}
