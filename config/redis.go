package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Redis is where a Redis or Valkey is, for coordination of kind redis and for
// strict limits. Secrets are in files of their own, whose last line break does
// not count.
type Redis struct {
	Addresses []string // "host:port" or "/path" of a socket: the server, or nodes of the cluster, or the sentinels
	Cluster   bool     // they are a cluster's
	Sentinel  string   // the name of the master that the sentinels know; empty: there are none
	Username  string   // of its ACL; empty: the default user
	Password  string   // the file that holds it; empty: none
	Database  int      // 0 in a cluster
	TLS       bool     // encrypted
	CA        string   // the file of who signs its certificate, as PEM; empty: as the system trusts
	Timeout   time.Duration
	Prefix    string // before the names of keys
	Scripts   bool   // it runs scripts; without them only strict limits work, in one to three round trips
	Salt      string // the file of what is mixed into the hashes of clients, the same on all sidecars; empty: none
}

func defaultRedis() Redis {
	return Redis{Timeout: 250 * time.Millisecond, Prefix: "tempomat:", Scripts: true}
}

// redisSettings are its keys. None can change while the proxy runs.
func redisSettings(c *Redis) []setting {
	const p = "coordination.redis."
	return []setting{
		{path: p + "addresses", value: redisAddresses(&c.Addresses), restart: true},
		{path: p + "cluster", value: boolean(&c.Cluster), restart: true},
		{path: p + "sentinel", value: redisWord(&c.Sentinel, ""), restart: true},
		{path: p + "username", value: redisWord(&c.Username, ""), restart: true},
		{path: p + "password", value: secretFile(&c.Password), restart: true},
		{path: p + "database", value: integer(&c.Database, 0, 1_000_000), restart: true},
		{path: p + "tls", value: boolean(&c.TLS), restart: true},
		{path: p + "ca", value: secretFile(&c.CA), restart: true},
		{path: p + "timeout", value: duration(&c.Timeout, time.Millisecond, 10*time.Second), restart: true},
		{path: p + "prefix", value: redisWord(&c.Prefix, "{}"), restart: true},
		{path: p + "scripts", value: boolean(&c.Scripts), restart: true},
		{path: p + "salt", value: secretFile(&c.Salt), restart: true},
	}
}

func redisAddresses(p *[]string) listOf {
	return listOf{
		max:   32,
		clear: func() { *p = nil },
		add: func(text string) error {
			host, port, err := net.SplitHostPort(text)
			number, e := strconv.ParseUint(port, 10, 16)
			bad := err != nil || e != nil || number == 0 || host == ""
			if bad && !filepath.IsAbs(text) || strings.ContainsAny(text, " \t,") {
				return errors.New("must be host:port, or the path of a socket, such as /run/redis/redis.sock")
			}
			*p = append(*p, text)
			return nil
		},
		get: func() string { return strings.Join(*p, ", ") },
	}
}

// redisWord takes a text without spaces, and without some other characters; it
// may be empty.
func redisWord(p *string, without string) scalar {
	return scalar{
		set: func(text string) error {
			if len(text) > 128 || strings.ContainsAny(text, " \t"+without) {
				problem := "must be at most 128 characters without spaces"
				if without != "" {
					problem += fmt.Sprintf(" and without %q", without)
				}
				return errors.New(problem)
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

// secretFile takes the path of a file; it may be empty.
func secretFile(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if text != "" && (!filepath.IsAbs(text) || len(text) > 1024) {
				return errors.New("must be the path of a file that holds it, beginning with /")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

// validateRedis checks what its keys mean together, and that it is there if
// something needs it.
func (r *reader) validateRedis(d *draft) {
	c := d.Coordination.Redis
	at := func(key string) source {
		if s, ok := r.given["coordination.redis."+key]; ok {
			return s
		}
		return r.given["coordination.kind"]
	}
	if len(c.Addresses) == 0 && !r.faulty("coordination.redis.addresses") {
		if d.Coordination.Kind == "redis" {
			r.fault(r.given["coordination.kind"], "", "needs coordination.redis.addresses")
		}
		for i, l := range d.Limits {
			if l.Strict {
				r.fault(d.limitSources[i].under("strict"), "", "needs coordination.redis.addresses")
			}
		}
		return
	}
	switch {
	case c.Cluster && c.Sentinel != "":
		r.fault(at("sentinel"), "", "cannot be beside cluster: true")
	case c.Cluster && c.Database != 0:
		r.fault(at("database"), "", "must be 0 in a cluster")
	case !c.Cluster && c.Sentinel == "" && len(c.Addresses) > 1:
		r.fault(at("addresses"), "", "is more than one, and neither cluster nor sentinel is given")
	case d.Coordination.Kind == "redis" && !c.Scripts:
		r.fault(at("scripts"), "", "must be true for coordination.kind redis; without scripts only limits can be counted in Redis")
	case c.CA != "" && !c.TLS:
		r.fault(at("ca"), "", "needs tls: true")
	}
}
