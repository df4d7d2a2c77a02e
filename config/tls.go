package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"tempomat/config/form"
)

// Listener is an address to listen on, with the protocols that it serves.
type Listener struct {
	Address       string // "host:port", ":port" or "unix:/path"
	TLS           bool   // serve TLS
	ProxyProtocol bool   // expect a PROXY protocol header, before TLS
	Redirect      bool   // redirect requests to HTTPS
}

// TLS sets where certificates come from.
type TLS struct {
	Certificates []CertificateFiles // the first one is used for clients that request no known name
	ACME         ACME
}

// CertificateFiles names the files of a certificate and its key, or a directory with several.
type CertificateFiles struct {
	Certificate, Key string
	Path             string // replaces Certificate and Key: a directory, or a file that contains both
}

// ACME sets how certificates are obtained from an authority (RFC 8555).
type ACME struct {
	Hosts     []string // hosts that need certificates
	Directory string   // the authority's URL
}

func defaultACME() ACME { return ACME{Directory: "https://acme-v02.api.letsencrypt.org/directory"} }

// listener reads one entry of listen: an address, an address followed by options, or a mapping.
func listener() form.Scalar[Listener] {
	address := listenAddress()
	return form.Scalar[Listener]{
		Parse: func(text string) (l Listener, err error) {
			at, behind, _ := strings.Cut(text, " ")
			if l.Address, err = address.Parse(at); err != nil {
				return l, err
			}
			flags := map[string]*bool{"tls": &l.TLS, "proxyProtocol": &l.ProxyProtocol, "redirect": &l.Redirect}
			for word := range strings.FieldsSeq(behind) {
				flag, known := flags[word]
				if !known {
					return l, errors.New("may have tls, proxyProtocol and redirect after the address, each after a space")
				}
				*flag = true
			}
			if l.TLS && l.Redirect {
				return l, errors.New("can't have both tls and redirect: clients of this address already use HTTPS")
			}
			return l, nil
		},
		Format: func(l Listener) string {
			return strings.ReplaceAll(form.Said(listenerSettings(&l), listenerSettings(new(Listener))), ",", "")
		},
	}
}

func listeners() form.List[Listener] {
	return form.List[Listener]{Of: listener(), Most: 16, Distinct: true, Mapping: listenerSettings}
}

func listenerSettings(l *Listener) []form.Setting {
	return []form.Setting{
		{Path: "address", Value: listenAddress().In(&l.Address), Required: true},
		{Path: "tls", Value: form.Boolean().In(&l.TLS)},
		{Path: "proxyProtocol", Value: form.Boolean().In(&l.ProxyProtocol)},
		{Path: "redirect", Value: form.Boolean().In(&l.Redirect)},
	}
}

func tlsSettings(t *TLS) []form.Setting {
	return []form.Setting{
		{Path: "tls.certificates", Value: certificates().In(&t.Certificates)},
		{Path: "tls.acme.hosts", Value: form.List[string]{Of: hostName(), Most: 100, Distinct: true}.In(&t.ACME.Hosts), Restart: true},
		{Path: "tls.acme.directory", Value: acmeDirectory().In(&t.ACME.Directory), Restart: true},
	}
}

// certificates reads a list of directories, files, or pairs of files.
func certificates() form.List[CertificateFiles] {
	return form.List[CertificateFiles]{
		Of: form.Scalar[CertificateFiles]{
			Parse: func(text string) (f CertificateFiles, err error) {
				certificate, key, pair := strings.Cut(text, " ")
				if !pair {
					f.Path, err = checkPath(text)
					return f, err
				}
				if f.Certificate, err = checkPath(certificate); err == nil {
					f.Key, err = checkPath(key)
				}
				return f, err
			},
			Format: func(f CertificateFiles) string {
				if f.Path != "" {
					return f.Path
				}
				return f.Certificate + " " + f.Key
			},
		},
		Most: 1000, Distinct: true,
		Mapping: func(f *CertificateFiles) []form.Setting {
			return []form.Setting{
				{Path: "certificate", Value: filePath().In(&f.Certificate), Required: true},
				{Path: "key", Value: filePath().In(&f.Key), Required: true},
			}
		},
	}
}

func checkPath(text string) (string, error) {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == ',' }
	if !filepath.IsAbs(text) || len(text) > 1024 || strings.ContainsFunc(text, odd) {
		return "", errors.New("must be a path that begins with / and contains no spaces or commas")
	}
	return filepath.Clean(text), nil
}

// filePath reads the path of a file. The file is opened when the certificates are loaded.
func filePath() form.Scalar[string] {
	return form.Text(checkPath)
}

func acmeDirectory() form.Scalar[string] {
	return form.Simple("must be the https:// URL of an authority's directory", func(text string) (string, bool) {
		u, err := url.Parse(text)
		return text, err == nil && u.Scheme == "https" && u.Hostname() != "" && validHost(u.Hostname()) && u.User == nil
	})
}

// validateTLS checks the combination of listen and tls.
func validateTLS(r *form.Reader, d *draft) {
	tls, proxied := false, false
	for _, l := range d.Listen {
		tls, proxied = tls || l.TLS, proxied || l.ProxyProtocol
	}
	certificates, hosts := len(d.TLS.Certificates) > 0, len(d.TLS.ACME.Hosts) > 0
	if tls && !certificates && !hosts && !r.Faulty("tls.certificates") && !r.Faulty("tls.acme.hosts") {
		r.Fault(r.Given["listen"], "", "has tls, which needs tls.certificates or tls.acme.hosts")
	}
	const inVain = "has no effect: no address of listen has tls: true"
	if certificates && !tls && !r.Faulty("listen") {
		r.Fault(r.Given["tls.certificates"], "", inVain)
	}
	if hosts && !tls && !r.Faulty("listen") {
		r.Fault(r.Given["tls.acme.hosts"], "", inVain)
	}
	if proxied && len(d.TrustedProxies) == 0 && !r.Faulty("trustedProxies") {
		r.Fault(r.Given["listen"], "", "has proxyProtocol, which needs trustedProxies: only trusted proxies may connect to such an address")
	}
}
