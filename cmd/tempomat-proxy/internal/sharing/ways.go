package sharing

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/gossip"
	"tempomat/limiter/redis"
	"tempomat/limiter/smockron"
)

// newGossip makes what shares accounts with no server. Its keys come from the secret.
func newGossip(c *config.Config, secret *Secret, log *zap.Logger) (limiter.Sharer, error) {
	g := c.Coordination.Gossip
	o := gossip.Options{Listen: g.Listen, Advertise: g.Advertise, Join: g.Join, Logf: log.Sugar().Warnf}
	if secret != nil {
		o.Keys = gossipKeys(secret.at(time.Now()))
	} else {
		log.Warn("messages between instances are not encrypted: any host that reaches the port can invent debts. Set coordination.secret")
	}
	sharer, err := gossip.New(o)
	if err != nil {
		return nil, fmt.Errorf("coordination.gossip: %w", err)
	}
	return sharer, nil
}

// gossipKeys are those of the encryption. The first one encrypts.
func gossipKeys(signing, other []byte) (keys [][]byte) {
	for _, secret := range [][]byte{signing, other} {
		key := derive(secret, encryption)
		keys = append(keys, key[:])
	}
	return keys
}

// newRedis makes what shares accounts through Redis.
func newRedis(c *config.Config, _ *Secret, _ *zap.Logger) (limiter.Sharer, error) {
	o, err := RedisOptions(c.Coordination)
	if err != nil {
		return nil, err
	}
	return redis.NewSharer(o, policy.Limits(c)), nil
}

// RedisOptions reads what the configuration says of Redis, and the files that it names:
// of secrets, and of who signs certificates. The error names the key.
func RedisOptions(coordination config.Coordination) (redis.Options, error) {
	c := coordination.Redis
	s := c.Server()
	o := redis.Options{
		Addresses: s.Addresses, Cluster: s.Cluster, SentinelMaster: s.Sentinel,
		Username: s.Username, Database: s.Database, Timeout: s.Timeout, Prefix: c.Prefix,
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
		if o.TLS.RootCAs, err = daemon.Authorities("coordination.redis.addresses: ca", s.CA); err != nil {
			return o, err
		}
	}
	return o, nil
}

// secretOf reads the file of one of Redis's secrets; that of no file is empty.
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

// newSmockron makes what shares accounts through masters.
func newSmockron(c *config.Config, secret *Secret, _ *zap.Logger) (limiter.Sharer, error) {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: routes(c), Now: time.Now, Carries: secret != nil,
	}), nil
}

// routes are the domains of this gatekeeper at their masters: those that are given, or one for each
// class.
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
			r.Class = d.Domain // a class of its own, which its master judges
		}
		if d.Master != (config.MasterAddress{}) {
			add(r, []config.MasterAddress{d.Master})
		} else {
			add(r, mastersOf(k.Masters, d.Domain))
		}
	}
	if len(k.Domains) > 0 {
		return all
	}
	for _, class := range c.Classes {
		name := k.Site + "." + class.Name
		add(smockron.Route{Domain: name, Class: class.Name}, mastersOf(k.Masters, name))
	}
	return all
}

// mastersOf picks the masters of a domain, two of them, so that either may be gone: the same on all
// sidecars that have the same masters, and few domains move when one is added (rendezvous hashing,
// Thaler and Ravishankar 1998).
func mastersOf(masters []config.MasterAddress, domain string) []config.MasterAddress {
	weight := func(m config.MasterAddress) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Accounting + "\x00" + domain)) // never fails
		return h.Sum64()
	}
	all := slices.Clone(masters)
	slices.SortFunc(all, func(a, b config.MasterAddress) int { return cmp.Compare(weight(b), weight(a)) })
	return all[:min(2, len(all))]
}
