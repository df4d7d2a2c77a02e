package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tempomat/config/form"
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
	Salt      string // the file of what is mixed into the hashes of clients, the same on all sidecars; empty: none
}

func defaultRedis() Redis {
	return Redis{Timeout: 250 * time.Millisecond, Prefix: "tempomat:"}
}

// redisSettings are its keys. None can change while the proxy runs.
func redisSettings(c *Redis) []form.Setting {
	const p = "coordination.redis."
	return []form.Setting{
		{Path: p + "addresses", Value: form.List[string]{Of: redisAddress(), Most: 32}.In(&c.Addresses), Restart: true,
			Doc: "The server, or some nodes of the cluster, or the sentinels. Must be given if something needs Redis."},
		{Path: p + "cluster", Value: form.Boolean().In(&c.Cluster), Restart: true,
			Doc: "They are a cluster's."},
		{Path: p + "sentinel", Value: redisWord("").In(&c.Sentinel), Restart: true,
			Doc: "They are sentinels, who know the master by this name."},
		{Path: p + "username", Value: redisWord("").In(&c.Username), Restart: true,
			Doc: "Of the servers' ACL; empty: the default user."},
		{Path: p + "password", Value: secretFile().In(&c.Password), Restart: true,
			Doc: "The file that holds the password."},
		{Path: p + "database", Value: form.Integer(0, 1_000_000).In(&c.Database), Restart: true,
			Doc: "The number of the database; 0 in a cluster."},
		{Path: p + "tls", Value: form.Boolean().In(&c.TLS), Restart: true,
			Doc: "Encrypted, also to sentinels."},
		{Path: p + "ca", Value: secretFile().In(&c.CA), Restart: true,
			Doc: "The PEM file of who signs the servers' certificates; empty: as the system trusts."},
		{Path: p + "timeout", Value: form.Duration(time.Millisecond, 10*time.Second).In(&c.Timeout), Restart: true,
			Doc: "The longest that a call takes, and so the longest that a strict limit delays a request."},
		{Path: p + "prefix", Value: redisWord("{}").In(&c.Prefix), Restart: true,
			Doc: "Before the names of keys."},
		{Path: p + "scripts", Value: form.Boolean().In(new(bool)), Gone: "the server has to run scripts, as all do unless an ACL forbids EVALSHA and EVAL"},
		{Path: p + "salt", Value: secretFile().In(&c.Salt), Restart: true,
			Doc: "The file of a secret that is mixed into the hashes by which clients are known in Redis: without it, who can read Redis can find out addresses by trying. The same one on all sidecars."},
	}
}

func redisAddress() form.Scalar[string] {
	return form.Text("address", "`host:port` or `/path`", func(text string) error {
		host, port, err := net.SplitHostPort(text)
		number, e := strconv.ParseUint(port, 10, 16)
		bad := err != nil || e != nil || number == 0 || host == ""
		if bad && !filepath.IsAbs(text) || strings.ContainsAny(text, " \t,") {
			return errors.New("must be host:port, or the path of a socket, such as /run/redis/redis.sock")
		}
		return nil
	})
}

// redisWord is a text without spaces, and without some other characters; it
// may be empty.
func redisWord(without string) form.Scalar[string] {
	allowed := "at most 128 characters without spaces"
	if without != "" {
		allowed += fmt.Sprintf(" and without %q", without)
	}
	return form.Text("word", strings.ReplaceAll(allowed, `"`, "`"), func(text string) error {
		if len(text) > 128 || strings.ContainsAny(text, " \t"+without) {
			return errors.New("must be " + allowed)
		}
		return nil
	})
}

// secretFile is the path of a file; it may be empty.
func secretFile() form.Scalar[string] {
	return form.Text("path", "an absolute path, or empty: none", func(text string) error {
		if text != "" && (!filepath.IsAbs(text) || len(text) > 1024) {
			return errors.New("must be the path of a file that holds it, beginning with /")
		}
		return nil
	}).Matching(`^(/.*)?$`)
}

// validateRedis checks what its keys mean together, and that it is there if
// something needs it.
func validateRedis(r *form.Reader, d *draft) {
	c := d.Coordination.Redis
	at := func(key string) form.Source {
		if s, ok := r.Given["coordination.redis."+key]; ok {
			return s
		}
		return r.Given["coordination.kind"]
	}
	if len(c.Addresses) == 0 && !r.Faulty("coordination.redis.addresses") {
		if d.Coordination.Kind == "redis" {
			r.Fault(r.Given["coordination.kind"], "", "needs coordination.redis.addresses")
		}
		for i, l := range d.Limits {
			if l.Strict {
				r.Fault(d.limitSources[i].Under("strict"), "", "needs coordination.redis.addresses")
			}
		}
		return
	}
	switch {
	case c.Cluster && c.Sentinel != "":
		r.Fault(at("sentinel"), "", "cannot be beside cluster: true")
	case c.Cluster && c.Database != 0:
		r.Fault(at("database"), "", "must be 0 in a cluster")
	case !c.Cluster && c.Sentinel == "" && len(c.Addresses) > 1:
		r.Fault(at("addresses"), "", "is more than one, and neither cluster nor sentinel is given")
	case c.CA != "" && !c.TLS:
		r.Fault(at("ca"), "", "needs tls: true")
	}
}
