package sim

// Claim is what somebody wants of a capacity, and the weight of their claim.
type Claim struct {
	Weight, Wants float64
}

// MaxMin divides a capacity max-min fairly: nobody gets more than they want, and
// nobody's share by weight could be raised but by taking from somebody who has
// less (Bertsekas and Gallager, Data Networks, 6.5.2). It fills all claims like
// vessels, until they are full or nothing is left.
func MaxMin(capacity float64, claims []Claim) []float64 {
	got := make([]float64, len(claims))
	for {
		open := 0.0
		for i, c := range claims {
			if got[i] < c.Wants {
				open += c.Weight
			}
		}
		if open == 0 || capacity <= 1e-12 {
			return got
		}
		rise := capacity / open // of the level by weight, unless somebody is full before
		for i, c := range claims {
			if got[i] < c.Wants {
				rise = min(rise, (c.Wants-got[i])/c.Weight)
			}
		}
		for i, c := range claims {
			if got[i] < c.Wants {
				got[i] += rise * c.Weight
				capacity -= rise * c.Weight
				if c.Wants-got[i] < 1e-12 {
					got[i] = c.Wants
				}
			}
		}
	}
}
