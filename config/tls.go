package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"tempomat/config/form"
)

// Listener is an address that is served, and how connections begin there.
type Listener struct {
	Address       string // "host:port", ":port" or "unix:/path"
	TLS           bool   // with TLS
	ProxyProtocol bool   // with a header of the PROXY protocol, before TLS
	Redirect      bool   // requests are sent to HTTPS
}

// TLS is where certificates come from.
type TLS struct {
	Certificates []CertificateFiles // the first is shown to clients that ask for no name of any
	ACME         ACME
}

// CertificateFiles are a certificate with its key, or many.
type CertificateFiles struct {
	Certificate, Key string // files
	Path             string // instead: a directory of such, or a file with both
}

// ACME is how certificates are got from an authority (RFC 8555).
type ACME struct {
	Hosts     []string // hosts to get certificates for
	Directory string   // the authority's URL
}

func defaultACME() ACME { return ACME{Directory: "https://acme-v02.api.letsencrypt.org/directory"} }

// listener is one entry of listen: an address, alone, with words behind it or as a mapping.
func listener() form.Scalar[Listener] {
	address := listenAddress()
	return form.Scalar[Listener]{
		Allowed: address.Allowed + "; also a mapping, or followed by the words `tls`, `proxyProtocol` or `redirect`",
		Schema:  form.Schema{"type": "string"},
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
				return l, errors.New("cannot have both tls and redirect: a client there already uses HTTPS")
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
		{Path: "address", Value: listenAddress().In(&l.Address), Required: true, Doc: "Address to listen on."},
		{Path: "tls", Value: form.Boolean().In(&l.TLS), Doc: "Serve TLS with the certificates of `tls`."},
		{Path: "proxyProtocol", Value: form.Boolean().In(&l.ProxyProtocol),
			Doc: "Expect a PROXY protocol header, which names the client. Only `trustedProxies` may connect."},
		{Path: "redirect", Value: form.Boolean().In(&l.Redirect),
			Doc: "Redirect to the same URL over HTTPS, except `/.well-known/acme-challenge/` and what a trusted proxy received over HTTPS."},
	}
}

func tlsSettings(t *TLS) []form.Setting {
	return []form.Setting{
		{Path: "tls.certificates", Value: certificates().In(&t.Certificates),
			Doc: "[Certificates](https.md) for `listen` addresses with `tls: true`: directories such as certbot's `/etc/letsencrypt/live`, or mappings with `certificate` and `key`. tempomat reads them again when they change."},
		{Path: "tls.acme.hosts", Value: form.List[string]{Of: hostName(), Most: 100, Distinct: true}.In(&t.ACME.Hosts), Restart: true,
			Doc: "Host names of [certificates by ACME](https.md#acme)."},
		{Path: "tls.acme.directory", Value: acmeDirectory().In(&t.ACME.Directory), Restart: true,
			Doc: "Directory URL of the certificate authority."},
	}
}

// certificates are directories, files, or pairs of files.
func certificates() form.List[CertificateFiles] {
	return form.List[CertificateFiles]{
		Of: form.Scalar[CertificateFiles]{
			Allowed: "path of a directory or file; also a mapping", Schema: form.Schema{"type": "string"},
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
				{Path: "certificate", Value: filePath().In(&f.Certificate), Required: true, Doc: "File of the certificate and its chain, as PEM."},
				{Path: "key", Value: filePath().In(&f.Key), Required: true, Doc: "File of the private key, as PEM."},
			}
		},
	}
}

func checkPath(text string) (string, error) {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == ',' }
	if !filepath.IsAbs(text) || len(text) > 1024 || strings.ContainsFunc(text, odd) {
		return "", errors.New("must be a path that begins with /, without spaces and commas")
	}
	return filepath.Clean(text), nil
}

// filePath is the path of a file that must be there.
func filePath() form.Scalar[string] {
	return form.Text("begins with `/`", checkPath)
}

func acmeDirectory() form.Scalar[string] {
	return form.Simple("`https://host[:port]/path`", "must be the https:// URL of an authority's directory", func(text string) (string, bool) {
		u, err := url.Parse(text)
		return text, err == nil && u.Scheme == "https" && u.Hostname() != "" && validHost(u.Hostname()) && u.User == nil
	})
}

// validateTLS checks what listen and tls mean together.
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
		r.Fault(r.Given["listen"], "", "has proxyProtocol, which needs trustedProxies: only these may connect there")
	}
}
