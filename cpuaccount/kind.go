package cpuaccount

import "strings"

const (
	// maxFeatures is the most features that a request has: its shape, its URL, and some of its parameters.
	maxFeatures = 6
	// longestURL is the length of the longest URL that is a feature.
	longestURL = 512
)

// Kind contains the properties of a request from which its cost is guessed.
type Kind struct {
	Site    string // the name of the site; empty: there is only one
	Shape   string // the shape of the path
	URL     string // the request's target, unchanged
	Client  string // the client
	Address string // the client's address, because its sessions count as one witness; empty: use Client
	Known   bool   // there is evidence that the client is a person
	Sends   bool   // it sends something to the page, which often costs more than opening it
	Uploads bool   // its client is still sending the body

	hashes hashes // set by Hash
}

// hashes are the form in which the Estimator uses a Kind.
type hashes struct {
	client  uint64
	address uint64
	buffer  [maxFeatures]uint64 // of the features, the shape first
	count   int                 // number of features in buffer; 0: nothing is set
}

func (h *hashes) features() []uint64 { return h.buffer[:h.count] }

// Hash stores the hashes of a Kind in the Kind itself, so the other methods needn't calculate them each time. The
// Kind's fields must not change afterwards.
func (g *Estimator) Hash(k *Kind) {
	h := &k.hashes
	if h.count > 0 {
		return
	}
	h.client = g.hash(k.Client)
	if h.address = h.client; k.Address != "" && k.Address != k.Client {
		h.address = g.hash(k.Address)
	}
	h.count = len(g.features(k, &h.buffer))
}

// apart returns a hash that keeps the features of different sites apart, and those of requests that send something
// or upload.
func (g *Estimator) apart(k *Kind) (h uint64) {
	if k.Site != "" {
		h = g.hash(k.Site)
	}
	if k.Sends {
		h = mix(h, 1)
	}
	if k.Uploads {
		h = mix(h, 2)
	}
	return h
}

// family returns the hash of what a request has in common with others of new kinds: its page if it has parameters,
// otherwise its folder.
func (g *Estimator) family(k *Kind) uint64 {
	end := strings.IndexByte(k.Shape, '?')
	if end < 0 {
		end = strings.LastIndexByte(k.Shape, '/')
	}
	return g.hash(k.Shape[:end+1]) ^ g.apart(k)
}

// features returns the hashes of a request's features in the buffer, the shape first.
func (g *Estimator) features(k *Kind, buffer *[maxFeatures]uint64) []uint64 {
	apart := g.apart(k)
	shape := (g.hash(k.Shape) ^ apart) &^ 1 // never equal to another feature
	features := append(buffer[:0], shape)
	start := strings.IndexByte(k.URL, '?')
	if k.URL == "" || start == 0 || len(k.URL) > longestURL {
		return features
	}
	features = append(features, (g.hash(k.URL)^apart)|1)
	if start < 0 {
		return features
	}
	query := k.URL[start+1:]
	for query != "" && len(features) < maxFeatures {
		var parameter string
		if parameter, query = cutParameter(query); parameter != "" {
			features = append(features, mix(shape, g.hash(parameter))|1)
		}
	}
	return features
}

// cutParameter cuts off the first parameter. Parameters also end at a semicolon, because some sites write a;b
// instead of a&b, for example MediaWiki and many sites in Perl.
func cutParameter(query string) (parameter, rest string) {
	if end := strings.IndexAny(query, "&;"); end >= 0 {
		return query[:end], query[end+1:]
	}
	return query, ""
}

// mix combines two hashes.
func mix(a, b uint64) uint64 {
	h := a ^ b*0x9e3779b97f4a7c15
	return (h ^ h>>32) * 0xd6e8feb86659fd93
}
