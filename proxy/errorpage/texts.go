package errorpage

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/text/language"
)

//go:embed texts page.html
var shipped embed.FS

// texts are what pages say in a language.
type texts struct {
	Request string // what the id of a request is called
	Again   string // when to try again; {wait} stands for the time
	// One of them, and several.
	Second, Minute, Hour [2]string
	Causes               map[string]says
}

// says is what a page says of a cause.
type says struct {
	Title string
	What  string // what has happened; {client} stands for the client's own address or network
	Todo  string // what a person can do
}

// textsIn are those of a language, or nil if none are shipped. Those of a region are its
// language's.
func textsIn(tag language.Tag) (*texts, error) {
	base, _ := tag.Base()
	raw, err := shipped.ReadFile("texts/" + base.String() + ".json")
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there is none in that language
	}
	t := new(texts)
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("the texts in %s: %w", base, err)
	}
	return t, nil
}

// appendWait appends a number of seconds in words: to the second up to 90, then in minutes and
// hours, rounded up.
func (t *texts) appendWait(b []byte, seconds int) []byte {
	n, unit := seconds, &t.Second
	if n > 90 {
		n, unit = (n+59)/60, &t.Minute
	}
	if unit == &t.Minute && n > 90 {
		n, unit = (n+59)/60, &t.Hour
	}
	b = append(strconv.AppendInt(b, int64(n), 10), ' ')
	if n == 1 {
		return append(b, unit[0]...)
	}
	return append(b, unit[1]...)
}

// symbols are the units in any language.
func symbols() *texts {
	return &texts{Second: [2]string{"s", "s"}, Minute: [2]string{"min", "min"}, Hour: [2]string{"h", "h"}}
}
