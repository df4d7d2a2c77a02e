package sharing

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/redis"
)

// throughRedis is a Sharer that follows the policy: which classes are shared, and what
// they earn.
type throughRedis struct{ *redis.Sharer }

// newRedis makes what shares accounts through Redis.
func newRedis(c *config.Config, _ *zap.Logger) (limiter.Sharer, error) {
	o, err := RedisOptions(c.Coordination.Redis)
	if err != nil {
		return nil, err
	}
	s, err := redis.NewSharer(o, policy.Limits(c))
	if err != nil {
		return nil, err
	}
	return throughRedis{s}, nil
}

// Reload shares by another policy.
func (r throughRedis) Reload(p limiter.Policy) error {
	r.SetPolicy(p)
	return nil
}

// RedisOptions reads what the configuration says of Redis, and the files that it names:
// of secrets, and of who signs certificates. The error names the key.
func RedisOptions(c config.Redis) (redis.Options, error) {
	o := redis.Options{
		Addresses: c.Addresses, Cluster: c.Cluster, SentinelMaster: c.Sentinel,
		Username: c.Username, Database: c.Database, Timeout: c.Timeout, Prefix: c.Prefix,
	}
	var err error
	if o.Password, err = secret("password", c.Password); err != nil {
		return o, err
	}
	if o.Salt, err = secret("salt", c.Salt); err != nil {
		return o, err
	}
	if c.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS.RootCAs, err = daemon.Authorities("coordination.redis.ca", c.CA); err != nil {
			return o, err
		}
	}
	return o, nil
}

// secret reads the file of a secret; that of no file is empty.
func secret(key, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("coordination.redis.%s: %w", key, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}
