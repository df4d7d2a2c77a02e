package config

import (
	"errors"
	"slices"
	"strings"
)

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
