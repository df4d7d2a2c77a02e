package shadow

import "time"

// served tells what requests used on average that ended at about the same time, where the
// backend had more of them than workers.
//
// What is charged meanwhile is divided among all that are there, those that wait for a worker
// as well. So while more and more wait, each that ends was charged with less than it used,
// and what is missing is charged to those that come later. But the sum at any moment is right:
// and what the backend used in some seconds, those used that it had done with in these.
type served struct {
	bins [servedFor]servedBin // by the second, modulo servedFor
}

// servedBin is one second.
type servedBin struct {
	at      int64   // Unix time
	charged float64 // CPU-seconds
	ended   float64 // requests
}

const (
	// servedFor is how many seconds are kept: a request is looked at a Window after it came,
	// and may have been there for as long before.
	servedFor = 256
	// servedAround is how many seconds before and after count as about the same time.
	servedAround = 5
)

func (v *served) bin(at int64) *servedBin {
	b := &v.bins[uint64(at)%servedFor] //nolint:gosec // after 1970
	if b.at != at {
		*b = servedBin{at: at}
	}
	return b
}

// add takes in a request that was at the backend.
func (v *served) add(s *seen) {
	if s.stay <= 0 {
		return
	}
	end := s.came.Add(s.delay + s.stay)
	v.bin(end.Unix()).ended++
	begin := end.Add(-min(s.stay, servedFor/2*time.Second))
	from, to := float64(begin.UnixMilli())/1000, float64(end.UnixMilli())/1000
	rate := s.asks.Seconds() / max(to-from, 1e-3)
	for at := begin.Unix(); at <= end.Unix(); at++ {
		v.bin(at).charged += rate * max(0, min(to, float64(at+1))-max(from, float64(at)))
	}
}

// mean is in CPU-seconds; false: too few ended when the request did. Of one that was there
// for long it is that of some time before: who was there beside it as it ended may not have
// ended yet.
func (v *served) mean(s *seen) (x float64, ok bool) {
	charged, ended := 0.0, 0.0
	end := s.came.Add(s.delay + max(0, min(s.stay, patience-s.stay))).Unix()
	for at := end - servedAround; at <= end+servedAround; at++ {
		if b := &v.bins[uint64(at)%servedFor]; b.at == at { //nolint:gosec // after 1970
			charged += b.charged
			ended += b.ended
		}
	}
	return charged / max(ended, 1), ended >= fewPages
}
