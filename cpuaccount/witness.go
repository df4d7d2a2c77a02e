package cpuaccount

// several is how many different addresses must have answers to a feature before it counts for
// all. A client that alone has answers to a feature could make it look cheap, and then ask for
// expensive pages. Two are not enough: nearly everyone has an IPv4 and an IPv6 address. More
// would only make a small site, whose pages have few readers, wait longer: a cheater with four
// addresses has a hundred.
const several = 3

// witnesses are the clients that the first answers went to, by a part of their hashes.
type witnesses [several]uint32

// add takes in one more, if it is none of them and they are too few yet.
func (w *witnesses) add(who uint32) {
	if w[several-1] != 0 {
		return
	}
	for i := range w {
		switch w[i] {
		case who:
			return
		case 0:
			w[i] = who
			return
		}
	}
}

func (w *witnesses) several() bool { return w[several-1] != 0 }

// convince reports whether answers to them count for a client: if they are several, or if it is
// one of them, because its own answers always count for it.
func (w *witnesses) convince(who uint32) bool {
	return w.several() || w[0] == who || w[1] == who
}

// witness is the part of a hash that is kept, never 0.
func witness(hash uint64) uint32 { return uint32(hash>>32) | 1 }
