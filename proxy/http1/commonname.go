package http1

// CommonName finds the names that most messages have, in their usual spelling. It gives
// them as package net/http writes them.
func CommonName(name []byte) (string, bool) {
	if s, ok := nameInBoth(name); ok {
		return s, true
	}
	if s, ok := nameInRequests(name); ok {
		return s, true
	}
	return nameInAnswers(name)
}

// nameInRequests finds those that requests have.
func nameInRequests(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Accept":
		return "Accept", true
	case "Accept-Encoding":
		return "Accept-Encoding", true
	case "Accept-Language":
		return "Accept-Language", true
	case "Authorization":
		return "Authorization", true
	case "Cookie":
		return "Cookie", true
	case "Expect":
		return "Expect", true
	case "Host":
		return "Host", true
	case "If-Modified-Since":
		return "If-Modified-Since", true
	case "If-None-Match":
		return "If-None-Match", true
	case "Origin":
		return "Origin", true
	case "Priority":
		return "Priority", true
	case "Range":
		return "Range", true
	case "Referer":
		return "Referer", true
	case "Sec-Ch-Ua":
		return "Sec-Ch-Ua", true
	case "Sec-Ch-Ua-Mobile":
		return "Sec-Ch-Ua-Mobile", true
	case "Sec-Ch-Ua-Platform":
		return "Sec-Ch-Ua-Platform", true
	case "Sec-Fetch-Dest":
		return "Sec-Fetch-Dest", true
	case "Sec-Fetch-Mode":
		return "Sec-Fetch-Mode", true
	case "Sec-Fetch-Site":
		return "Sec-Fetch-Site", true
	case "Sec-Fetch-User":
		return "Sec-Fetch-User", true
	case "Upgrade-Insecure-Requests":
		return "Upgrade-Insecure-Requests", true
	case "User-Agent":
		return "User-Agent", true
	case "X-Requested-With":
		return "X-Requested-With", true
	}
	return "", false
}

// nameInAnswers finds those that answers have.
func nameInAnswers(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Accept-Ranges":
		return "Accept-Ranges", true
	case "Content-Disposition":
		return "Content-Disposition", true
	case "Content-Encoding":
		return "Content-Encoding", true
	case "Date":
		return "Date", true
	case "ETag":
		return "Etag", true
	case "Expires":
		return "Expires", true
	case "Keep-Alive":
		return "Keep-Alive", true
	case "Last-Modified":
		return "Last-Modified", true
	case "Link":
		return "Link", true
	case "Location":
		return "Location", true
	case "Server":
		return "Server", true
	case "Set-Cookie":
		return "Set-Cookie", true
	case "Vary":
		return "Vary", true
	case "X-Powered-By":
		return "X-Powered-By", true
	}
	return "", false
}

// nameInBoth finds those that both have.
func nameInBoth(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Cache-Control":
		return "Cache-Control", true
	case "Connection":
		return "Connection", true
	case "Content-Length":
		return "Content-Length", true
	case "Content-Type":
		return "Content-Type", true
	case "Pragma":
		return "Pragma", true
	case "Transfer-Encoding":
		return "Transfer-Encoding", true
	case "Upgrade":
		return "Upgrade", true
	case "X-Forwarded-For":
		return "X-Forwarded-For", true
	case "X-Forwarded-Host":
		return "X-Forwarded-Host", true
	case "X-Forwarded-Proto":
		return "X-Forwarded-Proto", true
	}
	return "", false
}
