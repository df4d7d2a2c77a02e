package daemon

import (
	"crypto/x509"
	"fmt"
	"os"
)

// Authorities reads who may sign certificates, of a PEM file that a configuration names; nil,
// without a file, are those of the system. The error names the key.
func Authorities(key, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s holds no certificate", key, file)
	}
	return pool, nil
}
