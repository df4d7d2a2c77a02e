package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxSocketPath is what the system takes as a unix socket's path, in bytes
// (sockaddr_un has 108, one of them the closing zero).
const maxSocketPath = 107

func listenList(p *[]string) listOf {
	return listOf{
		max:   16,
		clear: func() { *p = nil },
		add: func(text string) error {
			if err := checkListen(text); err != nil {
				return err
			}
			if slices.Contains(*p, text) {
				return errors.New("is given twice")
			}
			*p = append(*p, text)
			return nil
		},
		get: func() string { return strings.Join(*p, ", ") },
	}
}

// orOff takes what sound accepts, or off, which is kept as no text at all.
func orOff(p *string, sound func(text string) error) scalar {
	return scalar{
		set: func(text string) error {
			if text == "" || text == "off" {
				*p = ""
				return nil
			}
			if err := sound(text); err != nil {
				return err
			}
			*p = text
			return nil
		},
		get: func() string {
			if *p == "" {
				return "off"
			}
			return *p
		},
	}
}

func adminListen(p *string) scalar {
	return orOff(p, func(text string) error {
		path, isUnix := strings.CutPrefix(text, "unix:")
		if !isUnix {
			return errors.New(`must be "unix:/path", or off`)
		}
		return checkSocketPath(path)
	})
}

// metricsAddress takes an address of TCP at which Prometheus asks, or nothing.
func metricsAddress(p *string) scalar {
	const form = `must be "host:port" or ":port", or empty for none`
	return scalar{
		set: func(text string) error {
			if text != "" {
				if err := checkHostPort(text, 1, form); err != nil {
					return err
				}
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

func checkListen(text string) error {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return checkSocketPath(path)
	}
	return checkHostPort(text, 0, `must be "host:port", ":port" or "unix:/path"`)
}

func checkSocketPath(path string) error {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || strings.ContainsRune(",?#", c) }
	switch {
	case !strings.HasPrefix(path, "/") || path == "/":
		return errors.New(`must be "unix:" and an absolute path, such as unix:/run/tempomat/proxy.sock`)
	case len(path) > maxSocketPath:
		return fmt.Errorf("the path of a unix socket has at most %d bytes", maxSocketPath)
	case strings.ContainsFunc(path, odd):
		return errors.New("the path of a unix socket must be without spaces, commas, ? and #")
	}
	return nil
}

// checkHostPort checks host:port with a numeric port; the host may be empty.
func checkHostPort(text string, leastPort int, problem string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || !validHost(host) {
		return errors.New(problem)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || int(n) < leastPort {
		return fmt.Errorf("the port must be a number from %d to 65535", leastPort)
	}
	return nil
}

// validHost is true for addresses, names and nothing; not for what a typing
// slip leaves in them.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	odd := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
	}
	return len(host) <= 253 && !strings.ContainsFunc(host, odd)
}

func backendURL(p *string) scalar {
	const form = "must be http://host:port, https://host:port or unix:/path"
	return scalar{
		set: func(text string) error {
			if path, ok := strings.CutPrefix(text, "unix:"); ok {
				if err := checkSocketPath(path); err != nil {
					return err
				}
				*p = text
				return nil
			}
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validHost(u.Hostname()) {
				return errors.New(form)
			}
			if u.User != nil {
				return errors.New(form + ", without a user or password")
			}
			if strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#") {
				return errors.New(form + ", without a path or query: those are the request's")
			}
			if u.Port() != "" || strings.HasSuffix(u.Host, ":") {
				if err := checkHostPort(u.Host, 1, form); err != nil {
					return err
				}
			}
			*p = u.Scheme + "://" + u.Host
			return nil
		},
		get: func() string { return *p },
	}
}

// parsePrefix takes a prefix or a single address; v4-mapped ones become IPv4,
// bits beyond the prefix are dropped.
func parsePrefix(text string) (netip.Prefix, error) {
	const problem = "must be an address or a prefix, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New(problem)
	}
	if prefix.Addr().Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errors.New(problem)
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

func trustedProxies(p *[]netip.Prefix) listOf {
	l := prefixes(p)
	add := l.add
	l.add = func(text string) error {
		if prefix, err := parsePrefix(text); err == nil && prefix.Bits() == 0 {
			return errors.New("would trust everybody, and anybody could claim any address; name the proxies")
		}
		return add(text)
	}
	return l
}

func prefixes(p *[]netip.Prefix) listOf {
	return listOf{
		max:   1024,
		clear: func() { *p = nil },
		add: func(text string) error {
			prefix, err := parsePrefix(text)
			if err == nil {
				*p = append(*p, prefix)
			}
			return err
		},
		get: func() string {
			var texts []string
			for _, prefix := range *p {
				texts = append(texts, prefix.String())
			}
			return strings.Join(texts, ", ")
		},
	}
}

func graphiteAddress(p *string) scalar {
	const form = `must be "host:port" or "tcp://host:port", or empty for none`
	return scalar{
		set: func(text string) error {
			address := strings.TrimPrefix(text, "tcp://")
			if address == "" {
				*p = ""
				return nil
			}
			if strings.HasPrefix(address, ":") {
				return errors.New(form)
			}
			if err := checkHostPort(address, 1, form); err != nil {
				return err
			}
			*p = address
			return nil
		},
		get: func() string { return *p },
	}
}

// graphitePrefix takes what Graphite takes as a series' name.
func graphitePrefix(p *string) scalar {
	odd := func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._-", c)
	}
	return scalar{
		set: func(text string) error {
			if len(text) > 200 || strings.ContainsFunc(strings.ReplaceAll(text, "{hostname}", ""), odd) {
				return errors.New("must be at most 200 letters, digits, dots, _ and -, and {hostname} where the machine's name shall stand")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}
