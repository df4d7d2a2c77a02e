package book

import (
	"math"
	"math/bits"
)

// distinct estimates how many different things there were lately, within about 5 %. It is a
// HyperLogLog (Flajolet et al., 2007) for each of some stretches of time, of which the
// oldest is forgotten: libraries have sketches that only grow, and would allocate for each
// page.
type distinct [stretches][registers]uint8

const (
	registers    = 512
	registerBits = 9
	stretches    = 5
	// stretch is how many seconds of the last ones are remembered: 9 to 11, 10 on average, as
	// with what addresses cost.
	stretch = lately / (stretches - 0.5)
)

// add takes in a thing by its hash, which clients cannot foresee.
func (d *distinct) add(turn int, hash uint64) {
	r := &d[turn%stretches][hash>>(64-registerBits)]
	*r = max(*r, uint8(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1)))+1) //nolint:gosec // 56 at most
}

// forget empties the stretch that begins.
func (d *distinct) forget(turn int) { clear(d[turn%stretches][:]) }

// estimate is how many there were.
func (d *distinct) estimate() int {
	sum, empty := 0.0, 0
	for i := range registers {
		most := uint8(0)
		for s := range d {
			most = max(most, d[s][i])
		}
		if most == 0 {
			empty++
		}
		sum += math.Ldexp(1, -int(most))
	}
	const m = float64(registers)
	e := 0.7213 / (1 + 1.079/m) * m * m / sum
	if e <= 2.5*m && empty > 0 { // few: by those that met nobody
		e = m * math.Log(m/float64(empty))
	}
	return int(math.Round(e))
}
