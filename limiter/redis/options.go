package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Options say where Redis is, and how it is used.
type Options struct {
	// Addresses, as host:port, or as the path of a Unix socket: of the one server,
	// of some nodes of a cluster, or of the sentinels.
	Addresses []string
	// Cluster says that they are a cluster's.
	Cluster bool
	// SentinelMaster is the name of the master that the sentinels know, and says that
	// the addresses are theirs. SentinelUsername and SentinelPassword are for them.
	SentinelMaster, SentinelUsername, SentinelPassword string

	Username, Password string      // of the servers' ACL; both empty: none
	Database           int         // 0 in a cluster
	TLS                *tls.Config // nil: unencrypted

	// Timeout bounds each call, and each attempt to connect. Zero is DefaultTimeout.
	Timeout time.Duration
	// Prefix begins the names of all keys; it may have no braces. Empty is DefaultPrefix.
	Prefix string
	// Salt is mixed into the hashes in the names of keys, so that who can read these
	// cannot find out the clients by trying. All sidecars must have the same one.
	Salt string
}

// What Options have where they say nothing.
const (
	DefaultTimeout = 250 * time.Millisecond
	DefaultPrefix  = "tempomat:"
)

// validate tells all that is wrong with the options.
func (o Options) validate() error {
	var faults []error
	if len(o.Addresses) == 0 {
		faults = append(faults, errors.New("redis: no address"))
	}
	for _, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil && !strings.HasPrefix(a, "/") {
			faults = append(faults, fmt.Errorf("redis: %w", err))
		}
	}
	if o.Cluster && o.SentinelMaster != "" {
		faults = append(faults, errors.New("redis: either a cluster or sentinels"))
	}
	if !o.Cluster && o.SentinelMaster == "" && len(o.Addresses) > 1 {
		faults = append(faults, errors.New("redis: more than one address, and neither a cluster nor sentinels"))
	}
	if o.Cluster && o.Database != 0 {
		faults = append(faults, errors.New("redis: a cluster has only the database 0"))
	}
	if o.Database < 0 {
		faults = append(faults, errors.New("redis: the database is below 0"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		faults = append(faults, errors.New("redis: braces in the prefix, all keys would be in one slot of a cluster"))
	}
	if o.Timeout < 0 {
		faults = append(faults, errors.New("redis: the timeout is below 0"))
	}
	return errors.Join(faults...)
}

func (o Options) complete() Options {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	return o
}

func (o Options) names() names { return names{prefix: o.Prefix, salt: o.Salt} }

// client says how the client library is to connect. Its buffers are for batches
// of small commands; a server that does not answer loses its connections soon.
func (o Options) client() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       o.Addresses,
		ForceSingleClient: !o.Cluster && o.SentinelMaster == "",
		Username:          o.Username,
		Password:          o.Password,
		SelectDB:          o.Database,
		TLSConfig:         o.TLS,
		ClientName:        "tempomat",
		Sentinel: rueidis.SentinelOption{
			MasterSet: o.SentinelMaster,
			Username:  o.SentinelUsername,
			Password:  o.SentinelPassword,
			TLSConfig: o.TLS,
		},
		ClusterOption:       rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
		Dialer:              net.Dialer{Timeout: o.Timeout, KeepAlive: time.Second},
		ConnWriteTimeout:    max(2*o.Timeout, time.Second),
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
		BlockingPoolSize:    64,
		PipelineMultiplex:   -1, // one connection
		DisableCache:        true,
		DisableRetry:        true, // nothing is sent again; the next batch is the next attempt
	}
}
