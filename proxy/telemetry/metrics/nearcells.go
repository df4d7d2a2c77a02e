package metrics

import (
	"math"
	"math/bits"
	"time"
)

// nearCells finds a duration's cell in a few steps: the length of the number in bits is a
// table's key, and the cells of numbers of one length are few.
type nearCells struct {
	bounds []time.Duration // the longest of each cell but the last
	first  [65]uint16      // by length in bits: the first cell that has such a number
}

func newNearCells(seconds []float64) (n nearCells) {
	for _, s := range seconds {
		n.bounds = append(n.bounds, longestWithin(s))
	}
	cell := 0
	for length := 1; length < len(n.first); length++ {
		for shortest := uint64(1) << (length - 1); cell < len(n.bounds) && uint64(n.bounds[cell]) < shortest; cell++ { //nolint:gosec // positive
		}
		n.first[length] = uint16(cell)
	}
	return n
}

// longestWithin is the longest duration that is not longer than so many seconds.
func longestWithin(seconds float64) time.Duration {
	d := time.Duration(math.Ceil(seconds * float64(time.Second)))
	for d.Seconds() > seconds {
		d--
	}
	return d
}

// cell is the first cell whose bound is not below d.
func (n *nearCells) cell(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	cell := int(n.first[bits.Len64(uint64(d))])
	for cell < len(n.bounds) && n.bounds[cell] < d {
		cell++
	}
	return cell
}
