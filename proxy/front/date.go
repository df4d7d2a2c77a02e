package front

import (
	"net/http"
	"sync/atomic"
	"time"
)

// dates writes the Date of answers that have none (RFC 9110, 6.6.1). Its methods may be
// called concurrently.
type dates struct{ now atomic.Pointer[date] }

// date is a second, as it is written.
type date struct {
	second int64
	line   []byte
}

func (d *dates) append(b []byte) []byte {
	t := time.Now()
	x := d.now.Load()
	if x == nil || x.second != t.Unix() {
		line := t.UTC().AppendFormat([]byte("Date: "), http.TimeFormat)
		x = &date{t.Unix(), append(line, "\r\n"...)}
		d.now.Store(x)
	}
	return append(b, x.line...)
}
