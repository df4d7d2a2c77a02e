package standing

import "tempomat/classify"

// worth is what a client's share is multiplied by: the product of what the evidence is
// worth. All of it is worth nothing of who claims to be a robot that it is not.
func worth(e classify.Evidence, attested float64) float64 {
	if e&classify.Forged != 0 {
		return classify.LeastStanding
	}
	x := 1.0
	for _, of := range []struct {
		kind  classify.Evidence
		times float64
	}{{classify.Cookie, 2}, {classify.Parts, 2}, {classify.Tenure, 2}, {classify.Attested, attested}, {classify.Contradiction, 0.5}} {
		if e&of.kind != 0 {
			x *= of.times
		}
	}
	return max(classify.LeastStanding, min(x, classify.MostStanding))
}
