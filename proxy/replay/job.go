package replay

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/proxy/lifecycle"
)

// job is a request while it is simulated.
type job struct {
	lifecycle.Life
	request http.Request
	url     url.URL
	agent   []string
	status  int
	part    bool // it is for a part of a page, by its name
	browser bool // its User-Agent is a browser's

	cpu    float64       // CPU-seconds that it costs
	idle   float64       // seconds for which it holds its worker after that
	came   time.Duration // on virtual time
	waited time.Duration // until it was decided
	doneAt float64       // of the backend's service, or of its time if it only holds its worker
	until  time.Duration // it is held until then
}

// requests makes requests of lines of a log.
type requests struct {
	browsers map[string]bool // User-Agents that were seen lately
	free     []*job
}

// agentsKept is how many User-Agents are remembered; then all are looked at anew.
const agentsKept = 4096

// job makes one. A log tells little of a request's headers: it has those that any
// browser has, or the lack of them would speak against it.
func (s *requests) job(a *arrived) *job {
	j := s.take()
	text := string(a.text)
	address, method, host, target := text[:a.ends[0]], text[a.ends[0]:a.ends[1]], text[a.ends[1]:a.ends[2]], text[a.ends[2]:a.ends[3]]
	agent := text[a.ends[3]:]
	j.cpu, j.came, j.status = a.cost.Seconds(), a.at, a.status
	j.url = url.URL{Path: target}
	if !a.decoded {
		j.url = urlOf(target)
	}
	header := j.request.Header
	if header == nil {
		header = http.Header{"Accept": {"*/*"}, "Accept-Language": {"*"}, "Accept-Encoding": {"gzip"}}
	}
	delete(header, "User-Agent")
	if agent != "" {
		j.agent = append(j.agent[:0], agent)
		header["User-Agent"] = j.agent
	}
	j.request = http.Request{
		Method: method, Host: host, URL: &j.url, RequestURI: target, RemoteAddr: address,
		Header: header, ProtoMajor: 1, ProtoMinor: 1,
	}
	j.part, j.browser = hasPartName(j.url.Path), s.isBrowser(agent)
	return j
}

// isBrowser tells whether a User-Agent is one's.
func (s *requests) isBrowser(agent string) bool {
	is, seen := s.browsers[agent]
	if !seen {
		if len(s.browsers) >= agentsKept || s.browsers == nil {
			s.browsers = make(map[string]bool)
		}
		is = classify.SaysBrowser(agent)
		s.browsers[strings.Clone(agent)] = is
	}
	return is
}

func (s *requests) take() *job {
	if n := len(s.free); n > 0 {
		j := s.free[n-1]
		s.free = s.free[:n-1]
		return j
	}
	return &job{}
}

func (s *requests) give(j *job) {
	*j = job{request: http.Request{Header: j.request.Header}, agent: j.agent}
	s.free = append(s.free, j)
}

// urlOf takes the target of a request line apart. One that is no path, of a proxy's
// client say, stands for its path.
func urlOf(target string) url.URL {
	if target[0] != '/' {
		_, rest, _ := strings.Cut(target, "://")
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return url.URL{Path: "/"}
		}
		target = rest[slash:]
	}
	path, query, _ := strings.Cut(target, "?")
	if strings.IndexByte(path, '%') >= 0 {
		if plain, err := url.PathUnescape(path); err == nil {
			return url.URL{Path: plain, RawPath: path, RawQuery: query}
		}
	}
	return url.URL{Path: path, RawQuery: query}
}

// hasPartName tells style sheets, scripts, images and fonts by their names.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 || len(path)-dot > len(".woff2") {
		return false
	}
	switch path[dot+1:] {
	case "css", "js", "mjs", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "woff", "woff2", "ttf":
		return true
	}
	return false
}
