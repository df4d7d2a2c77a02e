package redis

import (
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m,
		// The client of a cluster puts off its last look at the nodes by up to a second.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// server is a redis-server of the test's own.
type server struct {
	*testkit.Redis
	t testing.TB
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return &server{testkit.StartRedis(t, args...), t}
}

func (s *server) options() Options {
	return Options{Addresses: []string{s.Address}, Timeout: 10 * time.Second}
}

// direct is a connection of the test's own.
func (s *server) direct() rueidis.Client {
	s.t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Address}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		s.t.Fatal(err)
	}
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
	if err := r.Error(); err != nil {
		t.Fatal(err)
	}
}
