package top

import "math"

// The steps of a sparkline from nothing to all, for terminals with Unicode and without.
const (
	stepsUnicode = " ▁▂▃▄▅▆▇█"
	stepsASCII   = " .:-=+*#@"
)

// spark draws columns as bars of some lines; the scale is the value of a full bar.
func (f *Frame) spark(x, y, height int, columns []float64, scale float64, steps string) {
	letters := []rune(steps)
	most := len(letters) - 1
	for i, v := range columns {
		if math.IsNaN(v) || scale <= 0 {
			continue
		}
		filled := int(math.Ceil(v / scale * float64(most*height)))
		for line := range height { // from below
			step := min(max(filled-line*most, 0), most)
			f.put(x+i, y+height-1-line, f.Width, Plain, string(letters[step]))
		}
	}
}
