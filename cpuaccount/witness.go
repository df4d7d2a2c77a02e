package cpuaccount

// several is the number of different addresses that must have answers for a feature before these answers count for
// all clients. If one were enough, a client could make a feature look cheap and then request expensive pages. Two
// aren't enough, because most people have an IPv4 and an IPv6 address. More than three would delay learning on small
// sites, whose pages have few readers, and wouldn't stop attackers: an attacker with four addresses has a hundred.
const several = 3

// witnesses holds parts of the hashes of the first clients that received answers.
type witnesses [several]uint32

// add adds a client if it is new and there is room.
func (w *witnesses) add(hash uint32) {
	if w[several-1] != 0 {
		return
	}
	for i := range w {
		switch w[i] {
		case hash:
			return
		case 0:
			w[i] = hash
			return
		}
	}
}

func (w *witnesses) several() bool { return w[several-1] != 0 }

// convince reports whether answers to the witnesses count for a client: there are several witnesses, or the
// client is one of them.
func (w *witnesses) convince(hash uint32) bool {
	return w.several() || w[0] == hash || w[1] == hash
}

// witness returns the part of a client's hash that is stored. It is never 0.
func witness(hash uint64) uint32 { return uint32(hash>>32) | 1 }
