package sharing

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/base64"
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

// gossiping is a Sharer of a fleet that has no server, and where its keys are.
type gossiping struct {
	*gossip.Sharer
	keyFile string // empty: they are derived from the secret, or nothing is encrypted
	derived bool
}

// newGossip makes it. If it cannot be made, as its keys are no good, the sidecar serves all
// the same, and works alone.
func newGossip(c *config.Config, log *zap.Logger) (limiter.Sharer, error) {
	g := c.Coordination.Gossip
	keys, err := readKeys(g.KeyFile)
	if err != nil {
		return unable{err}, nil //nolint:nilerr // the Sharer tells it
	}
	derived := len(keys) == 0 && c.Coordination.Secret != ""
	if derived {
		secret, err := readSecret(c.Coordination.Secret)
		if err != nil {
			return nil, err
		}
		keys = gossipKeys(secret.at(time.Now()))
	}
	if len(keys) == 0 {
		log.Warn("what sidecars tell each other is not encrypted: whoever reaches the port can invent debts; set coordination.secret")
	}
	sharer, err := gossip.New(gossip.Options{
		Listen: g.Listen, Advertise: g.Advertise, Join: g.Join, Keys: keys, Logf: log.Sugar().Warnf,
	})
	if err != nil {
		return unable{fmt.Errorf("coordination.gossip: %w", err)}, nil
	}
	return gossiping{sharer, g.KeyFile, derived}, nil
}

// gossipKeys are those of the encryption that come from the secret. The first one encrypts.
func gossipKeys(signing, other []byte) (keys [][]byte) {
	for _, secret := range [][]byte{signing, other} {
		key := derive(secret, encryption)
		keys = append(keys, key[:])
	}
	return keys
}

// follow has the encryption go by the secrets that count now.
func (g gossiping) follow(signing, other []byte) error {
	if !g.derived {
		return nil
	}
	return g.SetKeys(gossipKeys(signing, other))
}

// Reload reads the file of keys again. Those that there were stay if it is no good.
func (g gossiping) Reload(limiter.Policy) error {
	if g.keyFile == "" {
		return nil
	}
	keys, err := readKeys(g.keyFile)
	if err == nil {
		err = g.SetKeys(keys)
	}
	if err != nil {
		return fmt.Errorf("the keys of the encryption stay as they were: %w", err)
	}
	return nil
}

// readKeys reads the keys of the encryption, one in each line, in base64. The first
// one encrypts. Without a file there are none.
func readKeys(file string) (keys [][]byte, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("coordination.gossip.keyFile: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("coordination.gossip.keyFile: %s:%d: must be 16, 24 or 32 bytes in base64", file, n)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("coordination.gossip.keyFile: %s: there is no key in it", file)
	}
	return keys, lines.Err()
}

// CheckSecret tells what is wrong with the file of the secret.
func CheckSecret(c *config.Config) error {
	if c.Coordination.Secret == "" {
		return nil
	}
	_, err := readSecret(c.Coordination.Secret)
	return err
}

// CheckKeys tells what is wrong with the file of keys: then nothing is shared.
func CheckKeys(c *config.Config) error {
	if c.Coordination.Kind != "gossip" {
		return nil
	}
	_, err := readKeys(c.Coordination.Gossip.KeyFile)
	return err
}

// throughRedis is a Sharer that follows the policy: which classes are shared, and what
// they earn.
type throughRedis struct{ *redis.Sharer }

// newRedis makes what shares accounts through Redis.
func newRedis(c *config.Config, _ *zap.Logger) (limiter.Sharer, error) {
	o, err := RedisOptions(c.Coordination)
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
func RedisOptions(coordination config.Coordination) (redis.Options, error) {
	c := coordination.Redis
	s := c.Server()
	o := redis.Options{
		Addresses: s.Addresses, Cluster: s.Cluster, SentinelMaster: s.Sentinel,
		Username: s.Username, Database: s.Database, Timeout: s.Timeout, Prefix: c.Prefix,
	}
	var err error
	if o.Password, err = secret("password", c.Password); err != nil {
		return o, err
	}
	if o.Salt, err = secret("salt", c.Salt); err != nil {
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

// newSmockron makes what shares accounts through masters.
func newSmockron(c *config.Config, _ *zap.Logger) (limiter.Sharer, error) {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: routes(c), Now: time.Now, Carries: c.Coordination.Secret != "",
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
