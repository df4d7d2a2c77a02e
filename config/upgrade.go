package config

import (
	"errors"
	"slices"
	"strings"
)

// pseudonym is what a proxy calls itself in Via (RFC 9110, 7.6.3: a token, or a host).
func pseudonym(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if len(text) > 64 || strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~:") != "" {
				return errors.New("must be a name of at most 64 letters, digits or signs such as - or _, without blanks; empty: no Via is added")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

// protocols are the names of protocols that a connection may change to.
func protocols(p *[]string) listOf {
	return listOf{
		max:   16,
		clear: func() { *p = nil },
		add: func(text string) error {
			name := strings.ToLower(text)
			switch {
			case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "":
				return errors.New("must be the name of a protocol, such as websocket, without a version")
			case name == "h2c":
				return errors.New("requests in it would pass unseen; clients speak HTTP/2 with the proxy without it")
			case slices.Contains(*p, name):
				return errors.New("is given twice")
			}
			*p = append(*p, name)
			return nil
		},
		get: func() string { return strings.Join(*p, ", ") },
	}
}
