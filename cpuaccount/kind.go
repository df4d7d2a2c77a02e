package cpuaccount

import "strings"

const (
	// maxFeatures is the number of features of a request: its shape, its URL, and some of its
	// parameters.
	maxFeatures = 6
	// longestURL is the most bytes of a URL that is looked at.
	longestURL = 512
)

// Kind is what the cost of a request is guessed by.
type Kind struct {
	Site    string // which of several it is for, that share their paths; empty: there is one
	Shape   string // of its path
	URL     string // its target as it came
	Client  string // the client
	Address string // its address, so the sessions of one address count as one witness; empty: the client itself
	Known   bool   // the client has proven to be a person
}

// ofSite is what tells the kinds of one site from those of the others.
func (g *Estimator) ofSite(k *Kind) uint64 {
	if k.Site == "" {
		return 0
	}
	return g.hash(k.Site)
}

// features appends the hashes of what a request may be told by, its shape first.
func (g *Estimator) features(k *Kind, buffer *[maxFeatures]uint64) []uint64 {
	site := g.ofSite(k)
	shape := (g.hash(k.Shape) ^ site) &^ 1 // never equal to another feature
	features := append(buffer[:0], shape)
	start := strings.IndexByte(k.URL, '?')
	if k.URL == "" || start == 0 || len(k.URL) > longestURL {
		return features
	}
	features = append(features, (g.hash(k.URL)^site)|1)
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

// cutParameter cuts the first parameter off. Some sites write a;b for a&b, MediaWiki
// and most of those in Perl among them.
func cutParameter(query string) (parameter, rest string) {
	end := strings.IndexByte(query, '&')
	if end < 0 {
		end = len(query)
	}
	if i := strings.IndexByte(query[:end], ';'); i >= 0 {
		end = i
	}
	return query[:end], query[min(end+1, len(query)):]
}

// mix makes one hash of two.
func mix(a, b uint64) uint64 {
	h := a ^ b*0x9e3779b97f4a7c15
	return (h ^ h>>32) * 0xd6e8feb86659fd93
}
