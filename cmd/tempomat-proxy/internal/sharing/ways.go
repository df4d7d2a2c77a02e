package sharing

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/gossip"
	"tempomat/limiter/redis"
	"tempomat/limiter/smockron"
)

// newGossip makes a Sharer that needs no server. Its keys are derived from the secret.
func newGossip(c *config.Config, secret *Secret, log *zap.Logger) (limiter.Sharer, error) {
	g := c.Coordination.Gossip
	o := gossip.Options{Listen: g.Listen, Advertise: g.Advertise, Join: g.Join, Logf: log.Sugar().Warnf}
	if secret != nil {
		o.Keys = gossipKeys(secret.at(time.Now()))
	} else {
		log.Warn("messages between instances are not encrypted: any host that reaches the port can forge debts. Set coordination.secret")
	}
	sharer, err := gossip.New(o)
	if err != nil {
		return nil, fmt.Errorf("coordination.gossip: %w", err)
	}
	return sharer, nil
}

// gossipKeys returns the keys of the encryption. The first one encrypts.
func gossipKeys(signing, other []byte) (keys [][]byte) {
	for _, secret := range [][]byte{signing, other} {
		key := derive(secret, encryption)
		keys = append(keys, key[:])
	}
	return keys
}

// newRedis makes a Sharer that uses Redis.
func newRedis(c *config.Config) (limiter.Sharer, error) {
	o, err := RedisOptions(c.Coordination)
	if err != nil {
		return nil, err
	}
	return redis.NewSharer(o, policy.Limits(c)), nil
}

// RedisOptions returns the options for Redis. It reads the files that the configuration names: the password,
// the secret, and the CA's certificate. An error names the key of the configuration.
func RedisOptions(coordination config.Coordination) (redis.Options, error) {
	c := coordination.Redis
	s := c.Server()
	o := redis.Options{
		Address: s.Address, Username: s.Username, Database: s.Database, Timeout: s.Timeout, Prefix: c.Prefix,
	}
	var err error
	if o.Password, err = secretOf("password", c.Password); err != nil {
		return o, err
	}
	if o.Salt, err = secretOf("salt", c.Salt); err != nil {
		return o, err
	}
	if coordination.Secret != "" && c.Salt == "" {
		shared, err := readSecret(coordination.Secret)
		if err != nil {
			return o, err
		}
		o.Salt = shared.salt()
	}
	if s.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS.RootCAs, err = authorities(s.CA); err != nil {
			return o, fmt.Errorf("coordination.redis.addresses: ca: %w", err)
		}
	}
	return o, nil
}

// authorities reads certificate authorities from a PEM file. Without a file, it returns nil, which means the
// authorities of the system.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s contains no certificate", file)
	}
	return pool, err
}

// secretOf reads a secret from its file. If no file is configured, the secret is empty.
func secretOf(key, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("coordination.redis.%s: %w", key, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// newSmockron makes a Sharer that uses masters.
func newSmockron(c *config.Config, secret *Secret) limiter.Sharer {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: routes(c), Now: time.Now, Carries: secret != nil,
	})
}

// routes returns the domains that this instance reports to masters: those in the configuration, or one for each
// class if there are none.
func routes(c *config.Config) (all []smockron.Route) {
	k := &c.Coordination.Smockron
	add := func(r smockron.Route, masters []config.MasterAddress) {
		for _, m := range masters {
			r.Master = smockron.Addresses(m)
			all = append(all, r)
		}
	}
	for _, d := range k.Domains {
		r := smockron.Route{Domain: d.Domain, Class: d.Class, Requests: d.Charge == "requests"}
		if r.Requests {
			r.Class = d.Domain // a separate class, whose requests the master judges
		}
		if d.Master != (config.MasterAddress{}) {
			add(r, []config.MasterAddress{d.Master})
		} else {
			add(r, k.Masters)
		}
	}
	if len(k.Domains) > 0 {
		return all
	}
	for _, class := range c.Classes {
		add(smockron.Route{Domain: k.Site + "." + class.Name, Class: class.Name}, k.Masters)
	}
	return all
}
