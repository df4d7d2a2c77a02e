package redis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

// The vectors were recorded from the service that had these limits. See meta in the file.
type vectorFile struct {
	Meta    map[string]json.RawMessage
	Factors map[string]float64 `json:"user_factors"`
	Vectors []vector
}

type vector struct {
	Name    string
	Limit   vectorLimit
	Factor  *float64
	Factors map[string]float64 `json:"user_factors"`
	Initial *vectorState
	Calls   []vectorCall
}

// vectorLimit is a limit in one of the service's two forms. The newer form is a bucket. The older one allows
// max requests in duration milliseconds, at least minInterval apart.
type vectorLimit struct {
	Name                       string `json:"key"`
	Type                       string
	Size, DripRate, DripSize   *float64
	Max, Duration, MinInterval *float64
}

// bucket returns the service's limit for a client with a factor. The zero Bucket means that there is no limit.
func (l vectorLimit) bucket(factor float64) quota.Bucket {
	given := func(x *float64, otherwise float64) float64 {
		if x == nil {
			return otherwise
		}
		return *x
	}
	half := func(x float64) float64 { return math.Floor(x + 0.5) }
	size, rate, drip := given(l.Size, 0), given(l.DripRate, 1000), given(l.DripSize, 1)
	switch {
	case factor == 0:
		return quota.Bucket{}
	case l.Type != "":
	case l.Max != nil && l.Duration != nil && *l.Duration != 0:
		pace := max(given(l.MinInterval, half(*l.Duration / *l.Max)), 1)
		size, drip = *l.Max, max(half(*l.Max/(*l.Duration/pace)), 1)
		rate = max(half(*l.Duration/(size/drip)), 1)
	case l.Max != nil && l.Duration != nil || given(l.MinInterval, 0) == 0:
		return quota.Bucket{}
	default:
		size, rate = 1, max(half(*l.MinInterval), 1)
	}
	return quota.Bucket{Size: int64(math.Ceil(size / factor)), DripRate: int64(math.Ceil(rate)), DripSize: int64(math.Ceil(drip))}
}

type vectorState struct{ Counter, Timestamp json.RawMessage }

type vectorCall struct {
	At            int64
	Actor         *string
	User          json.RawMessage // the user's id, or an object that contains it
	Key           *string
	Limit         *vectorLimit
	Factor        *float64
	ExpiredBefore []string `json:"expired_before"`
	Corrected     string   `json:"differs_from_original"`
	Expect        *vectorInfo
	Error         string
	Headers       map[string]string
	State         *vectorState
	Expires       *struct {
		Counter   *int64 `json:"counter_at"`
		Timestamp *int64 `json:"timestamp_at"`
	}
}

type vectorInfo struct {
	Blocked                                                 bool
	Remaining, ResetMs, ResetSec, FullResetMs, FullResetSec int64
}

func TestVectors(t *testing.T) {
	data := testkit.ReadFile(t, cmp.Or(os.Getenv("TEMPOMAT_VECTORS_LEAKYBUCKET"), "testdata/vectors/leakybucket.json"))
	var file vectorFile
	testkit.Must(t, json.Unmarshal([]byte(data), &file))
	if raw, ok := file.Meta["user_factors"]; ok && file.Factors == nil {
		_ = json.Unmarshal(raw, &file.Factors) // the factors are only in this field
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	s := startServer(t)
	o := s.options()
	p := &player{direct: s.direct(), checker: checker(t, o), file: &file}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) { p.play(t, v) })
	}
}

// player plays vectors against a Redis server.
type player struct {
	direct  rueidis.Client
	checker *Checker
	file    *vectorFile
	expires map[string]int64 // by Redis key, on the vector's clock
}

func (p *player) do(t *testing.T, command ...string) rueidis.RedisResult {
	t.Helper()
	return p.direct.Do(context.Background(), p.direct.B().Arbitrary(command...).Build())
}

// play plays a vector. The names of buckets are made as in the recording, because this test is only about
// buckets; names have their own tests.
func (p *player) play(t *testing.T, v vector) {
	must(t, p.do(t, "FLUSHALL"))
	p.expires = map[string]int64{}
	if v.Initial != nil {
		p.put(t, "rl_actor_test", "c", v.Initial.Counter)
		p.put(t, "rl_actor_test", "t", v.Initial.Timestamp)
	}
	for i, call := range v.Calls {
		limit, actor, factor := v.Limit, "actor", 1.0
		if call.Limit != nil {
			limit = *call.Limit
		}
		if call.Key != nil {
			limit.Name = *call.Key
		}
		if f := cmp.Or(call.Factor, v.Factor); f != nil {
			factor = *f
		}
		if call.Actor != nil {
			actor = *call.Actor
		}
		if call.User != nil {
			actor, factor = p.user(t, v, call.User, factor)
		}
		key := "rl_" + actor + "_" + limit.Name
		p.expireBefore(t, key, call)
		p.call(t, i, call, key, limit, factor)
		p.compareState(t, i, call, key)
	}
}

// user returns a user's id and factor.
func (p *player) user(t *testing.T, v vector, raw json.RawMessage, factor float64) (string, float64) {
	t.Helper()
	var object struct {
		ID     string
		Factor *float64
	}
	id := ""
	if json.Unmarshal(raw, &id) != nil {
		testkit.Must(t, json.Unmarshal(raw, &object))
		id = object.ID
	}
	for _, f := range []map[string]float64{v.Factors, p.file.Factors} {
		if known, ok := f[id]; ok {
			return id, known
		}
	}
	if object.Factor != nil {
		factor = *object.Factor
	}
	return id, factor
}

func (p *player) put(t *testing.T, key, field string, value json.RawMessage) {
	t.Helper()
	if present(value) {
		must(t, p.do(t, "HSET", key, field, strings.Trim(string(value), `"`)))
	}
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// expireBefore makes values expire that had expired when a call was recorded. If the recorded results were
// corrected later, values expire at the times that the corrected bucket set.
func (p *player) expireBefore(t *testing.T, key string, call vectorCall) {
	t.Helper()
	gone := call.ExpiredBefore
	if call.Corrected != "" {
		if at, ok := p.expires[key]; !ok || call.At <= at {
			return
		}
		gone = []string{"counter", "timestamp"}
	}
	for _, what := range gone {
		p.expire(t, key, what)
	}
}

// expire makes a value expire according to the vector's clock.
func (p *player) expire(t *testing.T, key, what string) {
	t.Helper()
	field := "t"
	if strings.HasPrefix(what, "c") || strings.HasSuffix(what, "_c") {
		field = "c"
	}
	must(t, p.do(t, "HDEL", key, field))
	if n, _ := p.do(t, "EXISTS", key).AsInt64(); n == 0 {
		delete(p.expires, key)
	}
}

func (p *player) call(t *testing.T, i int, call vectorCall, key string, limit vectorLimit, factor float64) {
	t.Helper()
	if strings.HasPrefix(call.Error, "Invalid rate limit") || strings.HasPrefix(call.Error, "Rate limit factor") {
		return // the configuration has its own checks
	}
	b := limit.bucket(factor)
	info, err := b.Status(quota.BucketState{}, 0, 0, false), error(nil)
	if b.Limits() {
		info, err = p.checker.check(context.Background(), key, b, 1, call.At)
	}
	if call.Error != "" {
		if !isReply(err) {
			t.Errorf("call %d: error %v, want %s", i, err, call.Error)
		}
		return
	}
	if err != nil {
		t.Fatalf("call %d: %v", i, err)
	}
	if call.Expect != nil {
		got := vectorInfo{
			info.Blocked, info.Remaining, info.Reset.Milliseconds(), int64(math.Ceil(info.Reset.Seconds())),
			info.FullReset.Milliseconds(), int64(math.Ceil(info.FullReset.Seconds())),
		}
		testkit.Same(t, *call.Expect, got, "call %d", i)
	}
	if call.Headers != nil {
		h := http.Header{}
		info.SetFields(h)
		delete(call.Headers, "Retry-After") // the proxy sets it
		for name, want := range call.Headers {
			testkit.Same(t, []string{want}, h[name], "call %d: %s", i, name)
		}
		if len(h) != len(call.Headers) {
			t.Errorf("call %d: the fields %v, want %v", i, h, call.Headers)
		}
	}
}

// compareState compares the state that Redis keeps after a call. It then removes the key's time to live, which
// doesn't follow the vector's clock.
func (p *player) compareState(t *testing.T, i int, call vectorCall, key string) {
	t.Helper()
	if call.State != nil {
		for field, want := range map[string]json.RawMessage{"c": call.State.Counter, "t": call.State.Timestamp} {
			got, err := p.do(t, "HGET", key, field).ToString()
			if present(want) != (err == nil) || (present(want) && got != strings.Trim(string(want), `"`)) {
				t.Errorf("call %d: %s is %q (%v), want %s", i, field, got, err, want)
			}
		}
	}
	left, err := p.do(t, "PTTL", key).AsInt64()
	testkit.Must(t, err)
	if left > 0 {
		p.expires[key] = call.At + (left+999)/1000*1000
		must(t, p.do(t, "PERSIST", key))
	}
	// Here, both values expire together, at the later of the two times.
	if e := call.Expires; e != nil && e.Counter != nil {
		testkit.Same(t, *e.Counter, p.expires[key], "call %d: the key expires at", i)
	}
}
