package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter/redis"
)

// newRedisSharer makes what shares accounts through Redis; it opens nothing.
func newRedisSharer(c *config.Config) (*redis.Sharer, error) {
	o, err := redisOptions(c.Coordination.Redis)
	if err != nil {
		return nil, err
	}
	return redis.NewSharer(o, policy.Limits(c))
}

// redisOptions reads what the configuration says of Redis, and the files that it
// names.
func redisOptions(c config.Redis) (redis.Options, error) {
	o := redis.Options{
		Addresses: c.Addresses, Cluster: c.Cluster, SentinelMaster: c.Sentinel,
		Username: c.Username, Database: c.Database, Timeout: c.Timeout, Prefix: c.Prefix,
		NoScripts: !c.Scripts,
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
		if o.TLS.RootCAs, err = authorities("coordination.redis.ca", c.CA); err != nil {
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

// authorities reads who may sign certificates; nil are those of the system.
func authorities(key, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s holds no certificate", key, file)
	}
	return pool, nil
}
