package certificates

import (
	"crypto/x509"
	"time"
)

// Set sets the options of an Authority that only tests use.
func Set(o *Authority, roots *x509.CertPool, check time.Duration) { o.roots, o.check = roots, check }
