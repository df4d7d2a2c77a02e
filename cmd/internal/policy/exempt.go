package policy

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"tempomat/classify"
	"tempomat/config"
)

// exemptions are those of a configuration. Their error names each secret that is none.
func exemptions(given []config.Exemption) (all []classify.Exemption, err error) {
	for i, e := range given {
		x := classify.Exemption{Prefix: e.CIDR, Path: e.Path, Methods: e.Methods, Host: e.Host, Header: e.Header}
		if e.Secret != "" {
			text, fault := readSecret(e.Secret)
			if fault != nil {
				err = errors.Join(err, fmt.Errorf("exempt[%d].secret: %w", i, fault))
			}
			x.Secret = text
		}
		all = append(all, x)
	}
	return all, err
}

// longestSecret is how long the value of a header can be that is a secret, in bytes.
const longestSecret = 4096

func readSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(s) < classify.MinSecret || len(s) > longestSecret || strings.ContainsFunc(s, odd) {
		return "", fmt.Errorf("%s must hold %d to %d printable characters without blanks, and nothing else", file, classify.MinSecret, longestSecret)
	}
	return s, nil
}
