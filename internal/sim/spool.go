package sim

// socketBuffers is how many bytes of an answer the kernel takes between backend
// and client.
const socketBuffers = 64 << 10

// aheadTime is for how many seconds a body of unknown length is read ahead.
const aheadTime = 1.0

// spool keeps what clients are slow to read, so that no worker has to.
type spool struct {
	most float64 // bytes for each address; 0: any number
	used map[uint32]float64
}

// keep takes in an answer, if there is room for it.
func (s *spool) keep(r *request) bool {
	n, a := r.page.Answer, r.client.Address
	if r.takes(n) == 0 {
		return true
	}
	if s.most > 0 && s.used[a]+n > s.most {
		return false
	}
	s.used[a] += n
	r.spooled = n
	return true
}

// drop lets go of an answer that was read, or that nobody is there to read.
func (s *spool) drop(r *request) {
	if r.spooled > 0 {
		s.used[r.client.Address] -= r.spooled
		r.spooled = 0
	}
}
