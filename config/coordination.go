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

// SharesNothing is the kind of Coordination of a sidecar that works alone.
const SharesNothing = "none"

// Coordination names whom the sidecar shares its accounts with.
type Coordination struct {
	Kind     string // SharesNothing, or one of ways
	Secret   string // the file of what all instances have in common; empty: none
	Smockron Smockron
	Redis    Redis // of kind redis, and for strict limits
	Gossip   Gossip
}

func defaultCoordination() Coordination {
	return Coordination{Kind: SharesNothing, Smockron: defaultSmockron(), Redis: defaultRedis(), Gossip: defaultGossip()}
}

// way is a way of sharing accounts: a value of coordination.kind, and the section of that
// name.
type way struct {
	name     string
	title    string // of its chapter in the reference
	keys     []form.Setting
	validate func(*form.Reader, *draft) // checks what it needs, if it is the kind; nil: nothing
}

// ways are the ways of sharing, in the order of the reference. A new one is a table like
// gossipSettings, a field of Coordination, and a line here.
func ways(d *draft) []way {
	c := &d.Coordination
	return []way{
		{"smockron", "Sharing through tempomat-master", smockronSettings(&c.Smockron), validateSmockron},
		{"redis", "Redis", redisSettings(d), nil}, // validateRedis, because strict limits need it, too
		{"gossip", "Sharing with no server", gossipSettings(d), validateGossip},
	}
}

func coordinationSettings(d *draft) []form.Setting {
	kinds := []string{SharesNothing}
	for _, w := range ways(d) {
		kinds = append(kinds, w.name)
	}
	return []form.Setting{
		{Path: "coordination.kind", Value: form.Choice(kinds...).In(&d.Coordination.Kind), Restart: true,
			Doc: "Way to share debts and known clients among several instances; see [several web servers](several-machines.md)."},
		{Path: "coordination.secret", Value: file().In(&d.Coordination.Secret), Restart: true,
			Doc: "File with the secret of all instances; `tempomat-proxy secret new` makes it. With it they also share known clients, standing and sessions, accept each other's redirects of newcomers and TLS session tickets, encrypt gossip and hide addresses in Redis. A reload reads the file again."},
	}
}

func validateCoordination(r *form.Reader, d *draft) {
	d.Coordination.Secret = cmp.Or(d.Coordination.Secret, d.keyFile)
	for _, w := range ways(d) {
		if w.name == d.Coordination.Kind && w.validate != nil {
			w.validate(r, d)
		}
	}
}

// Smockron is how accounts are shared through tempomat-master.
type Smockron struct {
	Masters []MasterAddress  // each domain has two of them, by its name
	Site    string           // before the class in the name of a domain that is not given
	Domains []SmockronDomain // empty: one for each class, charged by CPU time
}

// SmockronDomain is a domain of Smockron.
type SmockronDomain struct {
	Domain   string        // its name
	Class    string        // the class whose keys are its identifiers
	Charge   string        // cpu: accounting when a request is done; requests: when it is decided
	MaxDelay time.Duration // longest delay of a request; one that would wait longer is refused
	Master   MasterAddress // zero: two of Masters

	Identifier string // of requests: key, or what other gatekeepers send: address, mapped-address or user-agent
	Status     int    // of requests: of refusals, 429 or 503
}

func defaultSmockron() Smockron { return Smockron{Site: "site"} }

// smockronSettings are its keys. None can change while the proxy runs.
func smockronSettings(s *Smockron) []form.Setting {
	return []form.Setting{
		{Path: "coordination.smockron.master", Value: form.List[MasterAddress]{Of: masterAddress(), Most: 64}.In(&s.Masters), Restart: true,
			Doc: "Addresses of the masters. Each domain uses two of them, so [either may end](master.md#a-second-master)."},
		{Path: "coordination.smockron.site", Value: siteName().In(&s.Site), Restart: true,
			Doc: "Name of the site. The domain of a class is `<site>.<class>`."},
		{Path: "coordination.smockron.domains", Value: smockronDomains().In(&s.Domains), Restart: true, Default: "one for each class, by `cpu`",
			Doc: "Domains of your own. They replace the default, one domain for each class."},
	}
}

// validateSmockron checks that there is a master, and that domains are of classes that
// there are.
func validateSmockron(r *form.Reader, d *draft) {
	c := &d.Coordination
	at := r.Given["coordination.smockron.domains"]
	if len(c.Smockron.Masters) == 0 && !r.Faulty("coordination.smockron.master") {
		r.Fault(r.Given["coordination.kind"], "smockron", "needs coordination.smockron.master, such as tcp://127.0.0.1:10004")
	}
	told := 0
	seen := make(map[string]bool)
	for _, x := range c.Smockron.Domains {
		class := d.class(x.Class)
		switch {
		case x.Domain == "" || x.Class == "": // that is told already
		case seen[x.Domain]:
			r.Fault(at, form.Quoted(x.Domain), "is a domain twice")
		case class == nil || class.off:
			r.Fault(at, form.Quoted(x.Class), fmt.Sprintf("is no class that is on; domain %s needs one", x.Domain))
		case x.Charge == "cpu" && seen["cpu of "+x.Class]:
			r.Fault(at, form.Quoted(x.Class), "has two domains that are charged by CPU time; one is all that it can have")
		case x.Charge == "requests" && d.class(x.Domain) != nil:
			r.Fault(at, form.Quoted(x.Domain), "is the name of a class; a domain that is charged by requests needs a name of its own")
		}
		if d := newSmockronDomain(); x.Charge == "cpu" && (x.Identifier != d.Identifier || x.Status != d.Status) {
			r.Fault(at, form.Quoted(x.Domain), "has an identifier or a status of its own, and is charged by cpu: these are for charge: requests")
		}
		seen[x.Domain] = true
		if x.Charge == "cpu" {
			seen["cpu of "+x.Class] = true
		} else if told++; x.MaxDelay > d.Throttle.MaxHold {
			r.Fault(at, form.FormatDuration(x.MaxDelay), fmt.Sprintf("of domain %s is more than throttle.maxHold, %s", x.Domain, form.FormatDuration(d.Throttle.MaxHold)))
		}
	}
	on := 0
	for _, class := range d.classes {
		if !class.off {
			on++
		}
	}
	if told > 0 && on+told > maxClasses-1 {
		r.Fault(at, "", fmt.Sprintf("and the classes that are on are %d; domains that are charged by requests and classes are at most %d", on+told, maxClasses-1))
	}
}

var domainName = regexp.MustCompile(`^[!-~]{1,200}$`)

func siteName() form.Scalar[string] {
	return form.Simple("1 to 200 printable characters", "must be a name of 1 to 200 printable characters without spaces",
		func(text string) (string, bool) { return text, domainName.MatchString(text) })
}

// smockronDomains is the list of domains.
func smockronDomains() form.Members[SmockronDomain] {
	return form.Members[SmockronDomain]{
		Most: maxClasses, Least: 2, Example: "[{domain: foo, class: slash32, charge: requests}]", Needs: "domain and class",
		New: newSmockronDomain, Keys: smockronDomainSettings,
	}
}

// The statuses that refusals may have.
const tooMany, unavailable = 429, 503

func refusalStatus() form.Scalar[int] {
	s := form.Integer(tooMany, unavailable)
	s.Allowed = "`429` or `503`"
	return s.But("must be 429 or 503", func(status int) bool { return status == tooMany || status == unavailable })
}

// identifierKey has identifiers be the keys of the domain's class.
const identifierKey = "key"

func newSmockronDomain() SmockronDomain {
	return SmockronDomain{Charge: "cpu", MaxDelay: 5 * time.Second, Identifier: identifierKey, Status: tooMany}
}

func smockronDomainSettings(x *SmockronDomain) []form.Setting {
	return []form.Setting{
		{Path: "domain", Value: siteName().In(&x.Domain), Required: true, Doc: "Name of the domain."},
		{Path: "class", Value: siteName().In(&x.Class), Required: true, Doc: "Class whose keys are the domain's identifiers."},
		{Path: "charge", Value: form.Choice("cpu", "requests").In(&x.Charge),
			Doc: "Unit of accounting. `cpu` reports the cost after a request. `requests` reports each request, which then waits as long as the master orders."},
		{Path: "maxDelay", Value: form.Duration(0, time.Hour).In(&x.MaxDelay),
			Doc: "Longest delay with `charge: requests`; then the request is rejected. At most `throttle.maxHold`."},
		{Path: "master", Value: masterAddress().In(&x.Master), Default: "two of `coordination.smockron.master`",
			Doc: "Address of the domain's master."},
		{Path: "identifier", Value: form.Choice(identifierKey, "address", "mapped-address", "user-agent").In(&x.Identifier),
			Doc: "Identifier of clients with `charge: requests`, as [other gatekeepers](master.md#replace-a-node-master) write it: the class's key, the whole address, the same with IPv4 as `::ffff:203.0.113.9`, or the unchanged User-Agent."},
		{Path: "status", Value: refusalStatus().In(&x.Status),
			Doc: "Status of rejected requests with `charge: requests`."},
	}
}

// masterPort is a master's port for accounting. Control is on the next one.
const masterPort = 10004

// MasterAddress is where a Smockron master listens, in ZeroMQ's form.
type MasterAddress struct{ Accounting, Control string }

// masterAddress is where a master listens, given by its address for accounting.
func masterAddress() form.Scalar[MasterAddress] {
	return form.Scalar[MasterAddress]{
		Allowed: "`host:port` or `host` (port 10004; the next port is for control)",
		Schema:  form.Schema{"type": "string"},
		Parse:   parseMasterAddress, Format: func(a MasterAddress) string { return a.Accounting },
	}
}

// parseMasterAddress reads what the originals take for a master: [scheme://]host[:port],
// scheme tcp and port 10004 if they are not given. Control is on the next port, or
// at the same path with .control behind it for the scheme ipc.
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
			return a, errors.New("must have a port from 1 to 65534; control is on the next one")
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

// Redis is where a Redis or Valkey is, for coordination of kind redis and for
// strict limits. Secrets are in files of their own, whose last line break does
// not count.
type Redis struct {
	Addresses []string // "host:port" or "/path" of a socket: the server, or nodes of the cluster, or the sentinels; the first may be a URL
	Password  string   // the file that holds it; empty: none
	Prefix    string   // before the names of keys
	Salt      string   // the file of what is mixed into the hashes of clients, the same on all sidecars; empty: none
}

// RedisServer is what addresses say.
type RedisServer struct {
	Addresses []string      // without what a URL has next to them
	Cluster   bool          // they are a cluster's
	Sentinel  string        // the name of the master that the sentinels know; empty: there are none
	Username  string        // of its ACL; empty: the default user
	Database  int           // 0 in a cluster
	TLS       bool          // encrypted
	CA        string        // PEM file of its certificate's authority; empty: the system's authorities
	Timeout   time.Duration // the longest that a call takes; 0: as package redis has it
}

func defaultRedis() Redis { return Redis{Prefix: "tempomat:"} }

// redisSettings are its keys. None can change while the proxy runs.
func redisSettings(d *draft) []form.Setting {
	const (
		p     = "coordination.redis."
		inURL = "write it into the first of addresses, as in rediss://user@host:6379/0?sentinel=NAME&ca=FILE&timeout=1s or redis://host:6379?cluster"
	)
	c, older := &d.Coordination.Redis, &d.redis
	return []form.Setting{
		{Path: p + "addresses", Value: form.List[string]{Of: redisAddress(), Most: 32}.In(&c.Addresses), Restart: true,
			Doc: "Addresses of the server, of some cluster nodes, or of the sentinels. The first may be a URL: `redis://user@host:6379/0`, `rediss://…` for TLS, `unix://user@/path?db=0`. Options follow `?`, separated by `&`: `cluster`; `sentinel=NAME` of the master; `ca=FILE`, the servers' CA; `timeout=500ms`, the longest call."},
		{Path: p + "password", Value: file().In(&c.Password), Restart: true,
			Doc: "File that holds the password."},
		{Path: p + "prefix", Value: redisWord("{}").In(&c.Prefix), Restart: true,
			Doc: "Prefix of all keys in Redis. Fleets that share a Redis need different ones."},
		{Path: p + "salt", Value: file().In(&c.Salt), Restart: true,
			Old: "use coordination.secret, which hides addresses in Redis as well; change all instances together, because another salt begins new accounts"},
		{Path: p + "cluster", Value: form.Boolean().In(&older.Cluster), Old: inURL},
		{Path: p + "sentinel", Value: redisWord("").In(&older.Sentinel), Old: inURL},
		{Path: p + "username", Value: redisWord("").In(&older.Username), Old: inURL},
		{Path: p + "database", Value: form.Integer(0, mostDatabase).In(&older.Database), Old: inURL},
		{Path: p + "tls", Value: form.Boolean().In(&older.TLS), Old: inURL},
		{Path: p + "timeout", Value: redisTimeout().In(&older.Timeout), Old: inURL},
		{Path: p + "ca", Value: file().In(&older.CA), Old: inURL},
	}
}

// redisTimeout is the longest that a call takes.
func redisTimeout() form.Scalar[time.Duration] {
	return form.Duration(time.Millisecond, 10*time.Second)
}

// mostDatabase is the highest number of a database.
const mostDatabase = 1_000_000

// Server is what the addresses say, which the configuration has checked.
func (c *Redis) Server() RedisServer {
	s, _ := readRedis(c.Addresses)
	return s
}

// readRedis reads addresses; the first may be a URL.
func readRedis(addresses []string) (s RedisServer, err error) {
	for i, text := range addresses {
		if !strings.Contains(text, "://") {
			s.Addresses = append(s.Addresses, text)
			continue
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
			return s, errors.New("must be a URL of redis://, rediss:// or unix://")
		case i > 0:
			return s, errors.New("only the first address may be a URL; it is for all of them")
		}
		if _, has := u.User.Password(); has {
			return s, errors.New("must be without a password, which is in the file coordination.redis.password")
		}
		if err := s.readURL(u); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *RedisServer) readURL(u *url.URL) (err error) {
	q := u.Query()
	for name := range q {
		if !slices.Contains([]string{"cluster", "sentinel", "ca", "db", "timeout"}, name) {
			return errors.New("may have cluster, sentinel, ca, timeout and db behind the ?")
		}
	}
	s.Cluster, s.Sentinel, s.CA = q.Has("cluster"), q.Get("sentinel"), q.Get("ca")
	s.Username, s.TLS = u.User.Username(), u.Scheme == "rediss"
	address, database := u.Host, cmp.Or(strings.Trim(u.Path, "/"), q.Get("db"))
	if u.Scheme == "unix" {
		address, database = u.Path, q.Get("db")
	}
	if s.Database, err = form.Integer(0, mostDatabase).Parse(cmp.Or(database, "0")); err != nil {
		return fmt.Errorf("the number of the database %w", err)
	}
	if text := q.Get("timeout"); text != "" {
		if s.Timeout, err = redisTimeout().Parse(text); err != nil {
			return fmt.Errorf("the timeout %w", err)
		}
	}
	s.Addresses = append(s.Addresses, address)
	if err := checkRedisAddress(address); err != nil {
		return err
	}
	switch {
	case s.Cluster && s.Sentinel != "":
		return errors.New("cannot have both cluster and sentinel")
	case s.Cluster && s.Database != 0:
		return errors.New("must have the database 0 in a cluster")
	case s.CA != "" && !s.TLS:
		return errors.New("has ca, which needs rediss://")
	case s.CA != "" && !filepath.IsAbs(s.CA):
		return errors.New("must have the path of a file as ca, beginning with /")
	}
	return nil
}

// url is the first address with all that is said of the server; as it is if that is nothing.
func (s *RedisServer) url(address string) string {
	u, q := url.URL{Scheme: "redis", Host: address}, make([]string, 0, 4)
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
	if s.Cluster {
		q = append(q, "cluster")
	}
	if s.Sentinel != "" {
		q = append(q, "sentinel="+url.QueryEscape(s.Sentinel))
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
	return form.Checked("`host:port` or `/path`, or the first a URL", func(text string) error {
		if strings.Contains(text, "://") {
			_, err := readRedis([]string{text})
			return err
		}
		return checkRedisAddress(text)
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

// redisWord is a text without spaces, and without some other characters; it
// may be empty.
func redisWord(without string) form.Scalar[string] {
	allowed := "at most 128 characters without spaces"
	if without != "" {
		allowed += fmt.Sprintf(" and without %q", without)
	}
	return form.Simple(strings.ReplaceAll(allowed, `"`, "`"), "must be "+allowed,
		func(text string) (string, bool) {
			return text, len(text) <= 128 && !strings.ContainsAny(text, " \t"+without)
		})
}

// validateRedis checks what its keys mean together, and that it is there if
// something needs it.
func validateRedis(r *form.Reader, d *draft) {
	c, at := &d.Coordination.Redis, r.Given["coordination.redis.addresses"]
	switch {
	case r.Faulty("coordination.redis.addresses"):
		return
	case len(c.Addresses) == 0:
		if d.Coordination.Kind == "redis" {
			r.Fault(r.Given["coordination.kind"], "", "needs coordination.redis.addresses")
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
	s, err := readRedis(c.Addresses)
	if err == nil && !s.Cluster && s.Sentinel == "" && len(s.Addresses) > 1 {
		err = errors.New("is more than one, and the first is no URL that shows what they are: redis://host:port?cluster, or ?sentinel=NAME")
	}
	if err != nil {
		r.Fault(at, "", err.Error())
	}
}

// Gossip is how accounts are shared among sidecars with no server at all.
type Gossip struct {
	Listen    string   // address for both UDP and TCP
	Advertise string   // address address address at which peers reach it; empty: Listen
	Join      []string // peers, host:port; a host may be a DNS name of several addresses
}

func defaultGossip() Gossip { return Gossip{Listen: ":7946"} }

// gossipSettings are its keys. None can change while the proxy runs.
func gossipSettings(d *draft) []form.Setting {
	const p = "coordination.gossip."
	g := &d.Coordination.Gossip
	return []form.Setting{
		{Path: p + "listen", Value: tcpAddress().In(&g.Listen), Restart: true,
			Doc: "Address for messages of the other instances, over UDP and TCP."},
		{Path: p + "advertise", Value: form.OrEmpty(peerAddress(), "the same").In(&g.Advertise), Restart: true,
			Doc: "Address at which peers reach this instance, if it differs from `listen`. It is then also the instance's name; otherwise host name and port are."},
		{Path: p + "join", Value: form.List[string]{Of: peerAddress(), Most: 256}.In(&g.Join), Restart: true,
			Doc: "Addresses of peers. One live peer is enough. A host may be a DNS name with several addresses."},
		{Path: p + "keyFile", Value: file().In(&d.keyFile),
			Old: "name the file by coordination.secret, which encrypts gossip as well; change all instances together"},
	}
}

// validateGossip checks that there are peers to find. A configuration with a file of peers is
// accepted, with a warning that says what to do.
func validateGossip(r *form.Reader, d *draft) {
	_, hadFile := r.Given["coordination.gossip.joinFile"]
	if len(d.Coordination.Gossip.Join) == 0 && !hadFile && !r.Faulty("coordination.gossip.join") {
		r.Fault(r.Given["coordination.kind"], "gossip", "needs coordination.gossip.join, such as [10.0.0.1:7946, 10.0.0.2:7946]")
	}
}

const peerForm = `must be "host:port"`

// peerAddress is where a sidecar is reached, which needs a host.
func peerAddress() form.Scalar[string] {
	return form.Checked("`host:port`", func(text string) error {
		if strings.HasPrefix(text, ":") {
			return errors.New(peerForm)
		}
		return checkHostPort(text, 1, peerForm)
	})
}
