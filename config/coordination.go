package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tempomat/config/form"
)

// SharesNothing is the Coordination.Kind of an instance that works alone.
const SharesNothing = "none"

// Coordination sets how this instance shares its accounts with others.
type Coordination struct {
	Kind     string // SharesNothing, smockron, redis or gossip
	Secret   string // the file with the secret that all instances share; empty: none
	Smockron Smockron
	Redis    Redis // for kind redis, and for strict limits
	Gossip   Gossip
}

func defaultCoordination() Coordination {
	return Coordination{Kind: SharesNothing, Smockron: defaultSmockron(), Redis: defaultRedis(), Gossip: defaultGossip()}
}

func coordinationSettings(d *draft) []form.Setting {
	own := []form.Setting{
		{Path: "coordination.kind", Value: form.Choice(SharesNothing, "smockron", "redis", "gossip").In(&d.Coordination.Kind), Restart: true},
		{Path: "coordination.secret", Value: file().In(&d.Coordination.Secret), Restart: true},
	}
	return slices.Concat(own, smockronSettings(&d.Coordination.Smockron), redisSettings(d), gossipSettings(d))
}

func validateCoordination(r *form.Reader, d *draft) {
	d.Coordination.Secret = cmp.Or(d.Coordination.Secret, d.keyFile)
	switch d.Coordination.Kind {
	case "smockron":
		validateSmockron(r, d)
	case "gossip":
		validateGossip(r, d)
	}
	validateRedis(r, d) // strict limits need Redis with every kind
}

// Smockron sets how instances share accounts through tempomat-master.
type Smockron struct {
	Masters []MasterAddress  // each domain is reported to all of them
	Site    string           // Site, a dot and the class form the name of a class's default domain
	Domains []SmockronDomain // empty: one for each class, charged by CPU time
}

// SmockronDomain is a domain of the Smockron protocol.
type SmockronDomain struct {
	Domain   string
	Class    string        // the class whose keys are the domain's identifiers
	Charge   string        // cpu: report the CPU time after a request; requests: report each request before it runs
	MaxDelay time.Duration // the longest delay of a request; requests that would wait longer are rejected
	Master   MasterAddress // zero: all Masters

	Identifier string // with Charge requests: key, or the form in which other gatekeepers identify clients: address, mapped-address or user-agent
	Status     int    // with Charge requests: the status of rejected requests, 429 or 503
}

func defaultSmockron() Smockron { return Smockron{Site: "site"} }

// smockronSettings returns the keys of Smockron. All of them need a restart.
func smockronSettings(s *Smockron) []form.Setting {
	return []form.Setting{
		{Path: "coordination.smockron.master", Value: form.List[MasterAddress]{Of: masterAddress(), Most: 64}.In(&s.Masters), Restart: true},
		{Path: "coordination.smockron.site", Value: siteName().In(&s.Site), Restart: true},
		{Path: "coordination.smockron.domains", Value: smockronDomains().In(&s.Domains), Nested: true, Restart: true},
	}
}

// validateSmockron checks that there is a master, and that each domain names a class that is on.
func validateSmockron(r *form.Reader, d *draft) {
	c := &d.Coordination
	at := r.Given["coordination.smockron.domains"]
	if len(c.Smockron.Masters) == 0 && !r.Faulty("coordination.smockron.master") {
		r.Fault(r.Given["coordination.kind"], "smockron", "needs coordination.smockron.master, such as tcp://127.0.0.1:10004")
	}
	told, on := 0, d.enabled()
	seen := make(map[string]bool)
	for _, x := range c.Smockron.Domains {
		switch {
		case x.Domain == "" || x.Class == "": // Member has reported the missing key
		case seen[x.Domain]:
			r.Fault(at, form.Quoted(x.Domain), "is listed twice")
		case !slices.Contains(on, x.Class):
			r.Fault(at, form.Quoted(x.Class), fmt.Sprintf("is not an enabled class, which domain %s needs", x.Domain)+insteadOf(x.Class, on))
		case x.Charge == "cpu" && seen["cpu of "+x.Class]:
			r.Fault(at, form.Quoted(x.Class), "has two domains that are charged by CPU time, but may have only one")
		case x.Charge == "requests" && d.class(x.Domain) != nil:
			r.Fault(at, form.Quoted(x.Domain), "is the name of a class; a domain that is charged by requests needs a name of its own")
		}
		if d := newSmockronDomain(); x.Charge == "cpu" && (x.Identifier != d.Identifier || x.Status != d.Status) {
			r.Fault(at, form.Quoted(x.Domain), "sets identifier or status, which need charge: requests")
		}
		seen[x.Domain] = true
		if x.Charge == "cpu" {
			seen["cpu of "+x.Class] = true
		} else if told++; x.MaxDelay > d.Throttle.MaxHold {
			r.Fault(at, form.FormatDuration(x.MaxDelay), fmt.Sprintf("of domain %s is more than throttle.maxHold, %s", x.Domain, form.FormatDuration(d.Throttle.MaxHold)))
		}
	}
	if on := len(on); told > 0 && on+told > maxClasses-1 {
		r.Fault(at, "", fmt.Sprintf("there are %d enabled classes and domains that are charged by requests; together, at most %d are allowed", on+told, maxClasses-1))
	}
}

var domainName = regexp.MustCompile(`^[!-~]{1,200}$`)

func siteName() form.Scalar[string] {
	return form.Simple("must be a name of 1 to 200 printable characters without spaces",
		func(text string) (string, bool) { return text, domainName.MatchString(text) })
}

// smockronDomains reads the list of domains.
func smockronDomains() form.Members[SmockronDomain] {
	return form.Members[SmockronDomain]{
		Most: maxClasses, Example: "[{domain: foo, class: slash32, charge: requests}]", Needs: "domain and class",
		New: newSmockronDomain, Keys: smockronDomainSettings,
	}
}

// tooMany and unavailable are the allowed statuses for rejected requests.
const tooMany, unavailable = 429, 503

func refusalStatus() form.Scalar[int] {
	return form.Integer(tooMany, unavailable).But("must be 429 or 503", func(status int) bool { return status == tooMany || status == unavailable })
}

// identifierKey means that a domain identifies clients by the keys of its class.
const identifierKey = "key"

func newSmockronDomain() SmockronDomain {
	return SmockronDomain{Charge: "cpu", MaxDelay: 5 * time.Second, Identifier: identifierKey, Status: tooMany}
}

func smockronDomainSettings(x *SmockronDomain) []form.Setting {
	return []form.Setting{
		{Path: "domain", Value: siteName().In(&x.Domain), Required: true},
		{Path: "class", Value: siteName().In(&x.Class), Required: true},
		{Path: "charge", Value: form.Choice("cpu", "requests").In(&x.Charge)},
		{Path: "maxDelay", Value: form.Duration(0, time.Hour).In(&x.MaxDelay)},
		{Path: "master", Value: masterAddress().In(&x.Master)},
		{Path: "identifier", Value: form.Choice(identifierKey, "address", "mapped-address", "user-agent").In(&x.Identifier)},
		{Path: "status", Value: refusalStatus().In(&x.Status)},
	}
}

// masterPort is a master's default port for accounting. The port for control is the next one.
const masterPort = 10004

// MasterAddress is where a Smockron master listens, in the form that ZeroMQ expects.
type MasterAddress struct{ Accounting, Control string }

// masterAddress reads a master's address for accounting.
func masterAddress() form.Scalar[MasterAddress] {
	return form.Scalar[MasterAddress]{Parse: parseMasterAddress, Format: func(a MasterAddress) string { return a.Accounting }}
}

// parseMasterAddress reads an address as the original gatekeepers do: [scheme://]host[:port], by default with
// the scheme tcp and port 10004. The address for control has the next port. With the scheme ipc, it has the same
// path followed by .control.
func parseMasterAddress(text string) (a MasterAddress, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "tcp", text
	}
	switch {
	case scheme == "ipc" && strings.HasPrefix(rest, "/"):
		return MasterAddress{text, text + ".control"}, nil
	case scheme != "tcp" || rest == "" || strings.ContainsAny(rest, "/ "):
		return a, errors.New("must be host, host:port or tcp://host:port")
	}
	host, port := rest, masterPort
	if h, p, err := net.SplitHostPort(rest); err == nil {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65534 {
			return a, errors.New("must have a port from 1 to 65534; control uses the next one")
		}
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" {
		host = "*"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return MasterAddress{fmt.Sprintf("tcp://%s:%d", host, port), fmt.Sprintf("tcp://%s:%d", host, port+1)}, nil
}

// Redis sets which Redis or Valkey server is used for strict limits and for coordination of kind redis. Each secret
// is in a separate file, and a line break at its end is ignored.
type Redis struct {
	Addresses []string // a single address: "host:port", the "/path" of a socket, or a URL
	Password  string   // the file with the password; empty: none
	Prefix    string   // prefix of all keys in Redis
	Salt      string   // the file with a text that is mixed into the hashes of clients, the same for all instances; empty: none
}

// RedisServer is the server that an address describes.
type RedisServer struct {
	Address  string // host and port, or the path of a socket
	Username string // user of the server's ACL; empty: the default user
	Database int
	TLS      bool          // the connection uses TLS
	CA       string        // PEM file with the authority of the server's certificate; empty: the system's authorities
	Timeout  time.Duration // longest duration of a call; 0: the default of package redis
}

func defaultRedis() Redis { return Redis{Prefix: "tempomat:"} }

// redisSettings returns the keys of Redis. All of them need a restart.
func redisSettings(d *draft) []form.Setting {
	const (
		p     = "coordination.redis."
		inURL = "write it into the address, as in rediss://user@host:6379/0?ca=FILE&timeout=1s"
	)
	c, older := &d.Coordination.Redis, &d.redis
	return []form.Setting{
		{Path: p + "addresses", Value: form.List[string]{Of: redisAddress(), Most: 32}.In(&c.Addresses), Restart: true},
		{Path: p + "password", Value: file().In(&c.Password), Restart: true},
		{Path: p + "prefix", Value: redisWord("{}").In(&c.Prefix), Restart: true},
		{Path: p + "salt", Value: file().In(&c.Salt), Restart: true,
			Old: "use coordination.secret, which also hides addresses in Redis; change all instances together, because only instances with the same secret share debts"},
		{Path: p + "cluster", Gone: oneServer},
		{Path: p + "sentinel", Gone: oneServer},
		{Path: p + "username", Value: form.OrEmpty(redisWord("")).In(&older.Username), Old: inURL},
		{Path: p + "database", Value: form.Integer(0, mostDatabase).In(&older.Database), Old: inURL},
		{Path: p + "tls", Value: form.Boolean().In(&older.TLS), Old: inURL},
		{Path: p + "timeout", Value: redisTimeout().In(&older.Timeout), Old: inURL},
		{Path: p + "ca", Value: file().In(&older.CA), Old: inURL},
	}
}

// oneServer is the advice for keys of clusters and sentinels, which are no longer supported.
const oneServer = "clusters and sentinels are no longer supported: name one server, or an address that moves with the master"

// redisTimeout reads the longest duration of a call.
func redisTimeout() form.Scalar[time.Duration] {
	return form.Duration(time.Millisecond, 10*time.Second)
}

// mostDatabase is the highest database number.
const mostDatabase = 1_000_000

// Server returns the server that the address describes. The address must have been validated.
func (c *Redis) Server() RedisServer {
	if len(c.Addresses) == 0 {
		return RedisServer{}
	}
	s, _ := readRedis(c.Addresses[0])
	return s
}

// readRedis reads an address, which may be a URL.
func readRedis(text string) (s RedisServer, err error) {
	if !strings.Contains(text, "://") {
		s.Address = text
		return s, checkRedisAddress(text)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
		return s, errors.New("must be a redis://, rediss:// or unix:// URL")
	}
	if _, has := u.User.Password(); has {
		return s, errors.New("must not contain a password; put the password into a file, and name the file in coordination.redis.password")
	}
	return s, s.readURL(u)
}

func (s *RedisServer) readURL(u *url.URL) (err error) {
	q := u.Query()
	for name := range q {
		switch name {
		case "ca", "db", "timeout":
		case "cluster", "sentinel":
			return errors.New("has " + name + ", but " + oneServer)
		default:
			return errors.New("may have only ca, timeout and db after the ?")
		}
	}
	s.CA, s.Username, s.TLS = q.Get("ca"), u.User.Username(), u.Scheme == "rediss"
	address, database := u.Host, cmp.Or(strings.Trim(u.Path, "/"), q.Get("db"))
	if u.Scheme == "unix" {
		address, database = u.Path, q.Get("db")
	}
	if s.Database, err = form.Integer(0, mostDatabase).Parse(cmp.Or(database, "0")); err != nil {
		return fmt.Errorf("the database number %w", err)
	}
	if text := q.Get("timeout"); text != "" {
		if s.Timeout, err = redisTimeout().Parse(text); err != nil {
			return fmt.Errorf("the timeout %w", err)
		}
	}
	s.Address = address
	if err := checkRedisAddress(address); err != nil {
		return err
	}
	switch {
	case s.CA != "" && !s.TLS:
		return errors.New("has ca, which needs rediss://")
	case s.CA != "" && !filepath.IsAbs(s.CA):
		return errors.New("needs an absolute path for ca")
	}
	return nil
}

// url returns the address as a URL that includes all settings of the server. If there are none to add, url returns
// the address unchanged.
func (s *RedisServer) url(address string) string {
	u, q := url.URL{Scheme: "redis", Host: address}, make([]string, 0, 3)
	if s.TLS {
		u.Scheme = "rediss"
	}
	if s.Username != "" {
		u.User = url.User(s.Username)
	}
	if filepath.IsAbs(address) {
		u.Scheme, u.Host, u.Path = "unix", "", address
	}
	if s.Database != 0 {
		q = append(q, "db="+strconv.Itoa(s.Database))
	}
	if s.CA != "" {
		q = append(q, "ca="+url.QueryEscape(s.CA))
	}
	if s.Timeout != 0 {
		q = append(q, "timeout="+s.Timeout.String())
	}
	if len(q) == 0 && u.User == nil && !s.TLS {
		return address
	}
	u.RawQuery = strings.Join(q, "&")
	return u.String()
}

func redisAddress() form.Scalar[string] {
	return form.Checked(func(text string) error {
		_, err := readRedis(text)
		return err
	})
}

func checkRedisAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	number, e := strconv.ParseUint(port, 10, 16)
	bad := err != nil || e != nil || number == 0 || host == ""
	if bad && !filepath.IsAbs(text) || strings.ContainsAny(text, " \t,") {
		return errors.New("must be host:port, or the path of a socket, such as /run/redis/redis.sock")
	}
	return nil
}

// redisWord reads a string without spaces and without some other characters.
func redisWord(without string) form.Scalar[string] {
	allowed := "1 to 128 characters without spaces"
	if without != "" {
		allowed += fmt.Sprintf(" and without %q", without)
	}
	return form.Simple("must be "+allowed, func(text string) (string, bool) {
		return text, text != "" && len(text) <= 128 && !strings.ContainsAny(text, " \t"+without)
	})
}

// validateRedis checks the combination of the keys of Redis, and that there is a server if the configuration
// needs one.
func validateRedis(r *form.Reader, d *draft) {
	c, at := &d.Coordination.Redis, r.Given["coordination.redis.addresses"]
	switch {
	case r.Faulty("coordination.redis.addresses"):
		return
	case len(c.Addresses) == 0:
		if d.Coordination.Kind == "redis" {
			r.Fault(r.Given["coordination.kind"], "redis", "needs coordination.redis.addresses, such as [10.0.0.9:6379]")
		}
		for i, l := range d.Limits {
			if l.Strict {
				r.Fault(limitSource(r, i).Under("strict"), "", "needs coordination.redis.addresses")
			}
		}
		return
	case !strings.Contains(c.Addresses[0], "://"):
		c.Addresses[0] = d.redis.url(c.Addresses[0])
	}
	_, err := readRedis(c.Addresses[0])
	if len(c.Addresses) > 1 {
		err = errors.New("names more than one server, but " + oneServer)
	}
	if err != nil {
		r.Fault(at, "", err.Error())
	}
}

// Gossip sets how instances share accounts directly, without a server.
type Gossip struct {
	Listen    string   // address for UDP and TCP
	Advertise string   // address at which peers reach this instance; empty: Listen
	Join      []string // peers, as host:port; a host may be a DNS name with several addresses
}

func defaultGossip() Gossip { return Gossip{Listen: ":7946"} }

// gossipSettings returns the keys of gossip. All of them need a restart.
func gossipSettings(d *draft) []form.Setting {
	const p = "coordination.gossip."
	g := &d.Coordination.Gossip
	return []form.Setting{
		{Path: p + "listen", Value: tcpAddress().In(&g.Listen), Restart: true},
		{Path: p + "advertise", Value: form.OrEmpty(peerAddress()).In(&g.Advertise), Restart: true},
		{Path: p + "join", Value: form.List[string]{Of: peerAddress(), Most: 256}.In(&g.Join), Restart: true},
		{Path: p + "keyFile", Value: file().In(&d.keyFile),
			Old: "name the file in coordination.secret, which also encrypts gossip; change all instances together"},
	}
}

// validateGossip checks that there are peers to join. A configuration for an earlier release may name a file of peers
// instead. validateGossip accepts such a configuration, and adds a warning with advice.
func validateGossip(r *form.Reader, d *draft) {
	_, hadFile := r.Given["coordination.gossip.joinFile"]
	if len(d.Coordination.Gossip.Join) == 0 && !hadFile && !r.Faulty("coordination.gossip.join") {
		r.Fault(r.Given["coordination.kind"], "gossip", "needs coordination.gossip.join, such as [10.0.0.1:7946, 10.0.0.2:7946]")
	}
}

const peerForm = `must be "host:port"`

// peerAddress reads the address of a peer, which must have a host.
func peerAddress() form.Scalar[string] {
	return form.Checked(func(text string) error {
		if strings.HasPrefix(text, ":") {
			return errors.New(peerForm)
		}
		return checkHostPort(text, 1, peerForm)
	})
}
