package redis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a redis-server for one test.
type server struct {
	*testkit.Redis
	t testing.TB
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return &server{testkit.StartRedis(t, args...), t}
}

func (s *server) options() Options {
	return Options{Address: s.Address, Timeout: 10 * time.Second}
}

// direct returns a connection for the test itself.
func (s *server) direct() rueidis.Client {
	s.t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Address}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	testkit.Must(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func checker(t testing.TB, o Options) *Checker {
	t.Helper()
	c := NewChecker(o)
	t.Cleanup(c.Close)
	return c
}

func must(t testing.TB, r rueidis.RedisResult) {
	t.Helper()
	testkit.Must(t, r.Error())
}
