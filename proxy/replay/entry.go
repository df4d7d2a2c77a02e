package replay

import (
	"errors"
	"time"
)

// entry is what a line of a log says of a request. Its texts are parts of the line:
// they hold until the next one is read.
type entry struct {
	stamp   time.Time
	coarse  bool // the stamp has no fraction of a second
	arrival bool // the stamp is of the arrival, else of the end
	took    time.Duration
	cost    time.Duration // CPU time, if charged
	charged bool          // the log says what it cost
	leftOut int           // lines that the log says are missing before this one

	status                  int
	address, method, target []byte
	host, agent             []byte
	decoded                 bool // the target is a path, and decoded already
}

// longestTook is the longest that a request may have taken.
const longestTook = 24 * time.Hour

// longestTarget and longestAgent are how much is read of a target, or another text, and
// of a User-Agent, in bytes: more than classify and the guess look at.
const (
	longestTarget = 2048
	longestAgent  = 512
)

// What a line may be that is no request. errNone is nobody's fault.
var (
	errNone     = errors.New("it is no request")
	errAddress  = errors.New("it does not begin with the client's address")
	errTime     = errors.New("no time in brackets, such as [22/Nov/2026:11:42:33 +0000]")
	errRequest  = errors.New(`no request in quotes, such as "GET / HTTP/1.1"`)
	errStatus   = errors.New("no status of three digits behind the request")
	errAgent    = errors.New("no Referer and User-Agent in quotes: the format is not combined")
	errDuration = errors.New("no duration behind the User-Agent")
	errLong     = errors.New("the duration is longer than a day, or negative")
	errJSON     = errors.New("it is no object of JSON in a line")
	errField    = errors.New("time, client, method, path or took_ms is missing, or is not what it should be")
	errTooLong  = errors.New("it is longer than 64 KB")
)
