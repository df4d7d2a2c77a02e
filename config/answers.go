package config

import (
	"errors"
	"path/filepath"
	"regexp"

	"tempomat/config/form"
)

// Answers are what the proxy itself answers with.
type Answers struct {
	ErrorPages ErrorPages
	RobotsTxt  string // the file that /robots.txt is answered with; empty: the backend answers
}

func defaultAnswers() Answers {
	return Answers{ErrorPages: ErrorPages{Languages: []string{"en", "de"}}}
}

// ErrorPages are what people see where the proxy itself answers.
type ErrorPages struct {
	Directory string   // of templates; empty: the page that is shipped
	Languages []string // tags such as en or pt-BR, the first for who asks for none of them; at least one
}

// answerSettings are their keys.
func answerSettings(c *Answers) []form.Setting {
	return []form.Setting{
		{Path: "errorPages.directory", Value: pathToRead("a directory").In(&c.ErrorPages.Directory),
			Doc: "Templates of [your own pages](error-pages.md) for where the proxy itself answers. They are read at the start and at each reload; an invalid one keeps the running ones. Empty: the shipped page."},
		{Path: "errorPages.languages", Value: form.List[string]{Of: languageTag(), Most: 16, Distinct: true}.In(&c.ErrorPages.Languages),
			Doc: "The languages that pages are offered in, at least one; the first is for clients that ask for none of them. Languages other than English and German need a template."},
		{Path: "robotsTxt", Value: pathToRead("a file").In(&c.RobotsTxt),
			Doc: "The file that `/robots.txt` is [answered with](error-pages.md#robotstxt), without the backend. Empty: the backend answers."},
	}
}

// pathToRead is where something lies that is read again at each reload; it may be empty.
func pathToRead(what string) form.Scalar[string] {
	return form.Text("path", "an absolute path, or empty: none", func(text string) error {
		if text != "" && (!filepath.IsAbs(text) || len(text) > 1024) {
			return errors.New("must be the path of " + what + ", beginning with /, or empty for none")
		}
		return nil
	}).Matching(`^(/|$)`)
}

// languageTag is a tag of BCP 47, as far as its form goes: whether there is such a language,
// and a page in it, is seen as the pages are made.
func languageTag() form.Scalar[string] {
	const pattern = `^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$`
	tag := regexp.MustCompile(pattern)
	return form.Text("language", "a tag such as `de` or `pt-BR`", func(text string) error {
		if !tag.MatchString(text) {
			return errors.New("must be the tag of a language, such as en, de or pt-BR")
		}
		return nil
	}).Matching(pattern)
}

func validateErrorPages(r *form.Reader, d *draft) {
	if len(d.ErrorPages.Languages) == 0 && !r.Faulty("errorPages.languages") {
		r.Fault(r.Given["errorPages.languages"], "", "names no language; give at least one, such as en")
	}
}
