package inspect

import (
	"fmt"
	"net/url"

	"tempomat/cpuaccount"
	"tempomat/proxy/admin/api"
)

// anyURL is the site's first page.
func anyURL() *url.URL { return &url.URL{Path: "/"} }

// page tells of the page that was asked for, or that one of its requests under way is
// for.
func (e *explanation) page() {
	var k cpuaccount.Kind
	var title string
	switch {
	case e.kind == "page":
		k, title = e.pageKind()
	case len(e.waiting) > 0:
		k, title = e.waiting[0].Kind, "The page that it waits for"
	case len(e.running) > 0:
		k, title = e.running[0].Kind, "The page that it gets"
	default:
		return
	}
	known := e.Guess.Known(e.now, k)
	if e.kind == "page" {
		e.known = e.known || known.Answers > 0 || known.Asked > 0
	}
	rests := fmt.Sprintf("It rests on %s to the like of it.", plural(known.Answers, "answer", "answers"))
	switch {
	case known.Overran:
		rests = "One of the like lately cost far more than was guessed, so that it is in doubt."
	case !known.Sure && known.Answers == 0:
		rests = fmt.Sprintf("Nothing of the like was answered lately, and it was asked for %d times: it is a mere guess.", known.Asked)
	case !known.Sure:
		rests = "It is not sure: there are too few answers, to too few addresses, or something about it was never answered."
	}
	facts := []api.ExplainFact{
		{Name: "URL", Value: k.URL},
		{Name: "shape", Value: k.Shape},
		{Name: "likely cost", Value: cpuSeconds(known.Cost.Seconds()), Means: rests},
		{Name: "told by", Value: known.Feature, Means: "That is what tells the cost of the like of it best."},
	}
	if known.Idle.Seconds() >= 1 {
		facts = append(facts, api.ExplainFact{Name: "holds a worker", Value: "for " + spanOf(known.Idle), Means: "It likely does so without computing."})
	}
	e.add(title, append(facts, e.reputation(k)...)...)
}

// reputation tells who asks for the like of a page.
func (e *explanation) reputation(k cpuaccount.Kind) []api.ExplainFact {
	r := e.Guess.Explain(k)
	what := "People who are known read it: strangers who ask for it are not held back for that."
	switch {
	case r.People < 1:
		what = "Nobody who is known was here lately, so that this says little."
	case r.Rare && r.Readers == 0 && r.Strange == 0:
		what = "Nothing is known: neither known people nor strangers asked for it lately."
	case r.Rare:
		what = "Nothing is known: too few asked for it lately."
	case r.Value < 0.05:
		what = "Only strangers ask for it: of the strangers, those who do go last."
	case r.Value < 0.35:
		what = "Few known people read it, for the time that strangers spend on it: of the strangers, those who ask for it go later."
	}
	value := fmt.Sprintf("%.2f of 1", r.Value)
	if r.Rare {
		value = "none"
	}
	return []api.ExplainFact{
		{Name: "reputation", Value: value, Means: what},
		{
			Name: "by", Value: r.Feature,
			Means: fmt.Sprintf("%.0f of %.0f known people asked for it lately, and %s of %s that strangers used.",
				r.Readers, r.People, cpuSeconds(r.Strange.Seconds()), cpuSeconds(r.Strangers.Seconds())),
		},
	}
}
