package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"tempomat/config/form"
)

// maxSocketPath is what the system takes as a unix socket's path, in bytes
// (sockaddr_un has 108, one of them the closing zero).
const maxSocketPath = 107

// What editors are told of addresses.
const (
	socketPattern = `^unix:/[^\s,?#]{1,106}$`
	portPattern   = `^[^\s/]*:[0-9]{1,5}$`
)

// listenAddress is where requests are served.
func listenAddress() form.Scalar[string] {
	return form.Text("address", "`host:port`, `:port` or `unix:/path`; port 0 takes a free one", func(text string) error {
		if path, ok := strings.CutPrefix(text, "unix:"); ok {
			return checkSocketPath(path)
		}
		return checkHostPort(text, 0, `must be "host:port", ":port" or "unix:/path"`)
	}).Matching(socketPattern + "|" + portPattern)
}

// adminSocket is where the admin API listens.
func adminSocket() form.Scalar[string] {
	return form.OrOff(form.Text("address", "`unix:/path`", func(text string) error {
		path, isUnix := strings.CutPrefix(text, "unix:")
		if !isUnix {
			return errors.New(`must be "unix:/path", or off`)
		}
		return checkSocketPath(path)
	}).Matching(socketPattern), "off", "")
}

// metricsAddress is an address of TCP at which Prometheus asks, or nothing.
func metricsAddress() form.Scalar[string] {
	return form.OrEmpty(form.Text("address", "`host:port` or `:port`", func(text string) error {
		return checkHostPort(text, 1, `must be "host:port" or ":port", or empty for none`)
	}).Matching(portPattern), "nowhere")
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

// backendURL is kept without a slash at its end.
func backendURL() form.Scalar[string] {
	s := form.Text("URL", "`http://host[:port]`, `https://host[:port]` or `unix:/path`, without a path, query or user", nil)
	s.Parse = parseBackendURL
	return s.Matching(socketPattern + `|^https?://[^/?#@\s]+/*$`)
}

func parseBackendURL(text string) (string, error) {
	const form = "must be http://host:port, https://host:port or unix:/path"
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return text, checkSocketPath(path)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validHost(u.Hostname()):
		return "", errors.New(form)
	case u.User != nil:
		return "", errors.New(form + ", without a user or password")
	case strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#"):
		return "", errors.New(form + ", without a path or query: those are the request's")
	case u.Port() != "" || strings.HasSuffix(u.Host, ":"):
		err = checkHostPort(u.Host, 1, form)
	}
	return u.Scheme + "://" + u.Host, err
}

// graphiteAddress is kept without its scheme.
func graphiteAddress() form.Scalar[string] {
	const problem = `must be "host:port" or "tcp://host:port", or empty for none`
	s := form.Text("address", "`host:port` or `tcp://host:port`", nil).Matching(`^(tcp://)?([^\s/:].*:[0-9]{1,5})?$`)
	s.Parse = func(text string) (string, error) {
		address := strings.TrimPrefix(text, "tcp://")
		if address == "" {
			return "", nil
		}
		if strings.HasPrefix(address, ":") {
			return "", errors.New(problem)
		}
		return address, checkHostPort(address, 1, problem)
	}
	return form.OrEmpty(s, "nowhere")
}

// graphitePrefix is what Graphite takes as a series' name.
func graphitePrefix() form.Scalar[string] {
	odd := func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._-", c)
	}
	return form.Text("text", "at most 200 letters, digits, `.`, `_` and `-`, and `{hostname}`", func(text string) error {
		if len(text) > 200 || strings.ContainsFunc(strings.ReplaceAll(text, "{hostname}", ""), odd) {
			return errors.New("must be at most 200 letters, digits, dots, _ and -, and {hostname} where the machine's name shall stand")
		}
		return nil
	})
}
