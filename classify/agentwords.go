package classify

// browser is a browser that User-Agents name. They name several: the first in
// this order is the one that it is.
type browser uint8

const (
	noBrowser browser = iota
	headlessChrome
	edge
	opera
	samsungBrowser
	yandexBrowser
	ucBrowser
	firefox
	chrome
	msie
	safari
	webkit
	mozilla // said by all; it is the family of those that say no more
)

func (b browser) label() string {
	return [...]string{
		"", "headlesschrome", "edge", "opera", "samsungbrowser", "yabrowser", "ucbrowser",
		"firefox", "chrome", "msie", "safari", "webkit", "mozilla",
	}[b]
}

// platform is what the browser runs on; the first in this order counts.
type platform uint8

const (
	noPlatform platform = iota
	android
	iphone
	ipad
	windows
	macintosh
	chromeOS
	linux
)

func (p platform) label() string {
	return [...]string{"", "android", "iphone", "ipad", "windows", "macintosh", "cros", "linux"}[p]
}

// known finds a folded word in the two lists. Every label is in them as itself.
func known(w []byte) (browser, platform) {
	switch string(w) {
	case "mozilla":
		return mozilla, noPlatform
	case "applewebkit", "webkit":
		return webkit, noPlatform
	case "safari":
		return safari, noPlatform
	case "chrome", "chromium", "crios":
		return chrome, noPlatform
	case "firefox", "fxios":
		return firefox, noPlatform
	case "edg", "edge", "edga", "edgios":
		return edge, noPlatform
	case "opr", "opera":
		return opera, noPlatform
	case "msie", "trident":
		return msie, noPlatform
	case "samsungbrowser":
		return samsungBrowser, noPlatform
	case "yabrowser":
		return yandexBrowser, noPlatform
	case "ucbrowser":
		return ucBrowser, noPlatform
	case "headlesschrome":
		return headlessChrome, noPlatform
	case "windows":
		return noBrowser, windows
	case "macintosh":
		return noBrowser, macintosh
	case "linux":
		return noBrowser, linux
	case "android":
		return noBrowser, android
	case "iphone", "ipod":
		return noBrowser, iphone
	case "ipad":
		return noBrowser, ipad
	case "cros":
		return noBrowser, chromeOS
	}
	return noBrowser, noPlatform
}

// wordRole is what an unlisted word does for the family.
type wordRole uint8

const (
	plain      wordRole = iota
	compatible          // a name follows
	bareMark            // says "robot", without a name
	mark                // a robot's name
)

func role(w []byte) wordRole {
	switch string(w) {
	case "compatible":
		return compatible
	case "bot", "bots", "robot", "robots", "crawl", "crawler", "crawlers", "spider", "spiders", "scraper":
		return bareMark
	case "cubot": // a telephone
		return plain
	}
	if hasMark(w) {
		return mark
	}
	return plain
}

// hasMark looks for bot, crawl, spider, scrap and slurp in one pass.
func hasMark(w []byte) bool {
	for i := 0; i+3 <= len(w); i++ {
		rest := w[i:]
		switch rest[0] {
		case 'b':
			if rest[1] == 'o' && rest[2] == 't' {
				return true
			}
		case 'c':
			if len(rest) >= 5 && string(rest[:5]) == "crawl" {
				return true
			}
		case 's':
			if len(rest) >= 6 && string(rest[:6]) == "spider" {
				return true
			}
			if len(rest) >= 5 && (string(rest[:5]) == "slurp" || string(rest[:5]) == "scrap") {
				return true
			}
		}
	}
	return false
}
