package admin

import (
	"testing"

	"tempomat/proxy/admin/api"
)

// withHistory returns options with a history of one hour. The hour's number of requests is the number of hours
// that the request asks for.
func withHistory() Options {
	o := options()
	o.History = func(hours int) api.HistoryReply {
		return api.HistoryReply{Version: api.Version, Hours: []api.HourRow{{
			Requests: uint64(hours),
			Classes:  []api.HistoryClass{{Class: "gone"}, {Class: "userAgent"}, {Class: "slash32"}},
		}}}
	}
	return o
}

func TestHistory(t *testing.T) {
	for query, want := range map[string]uint64{"": 24, "?hours=1": 1, "?hours=168": 168} {
		var reply api.HistoryReply
		rec := ask(t, withHistory(), "GET", "/v1/history"+query, &reply)
		if rec.Code != 200 || len(reply.Hours) != 1 || reply.Hours[0].Requests != want {
			t.Errorf("%q: status %d, %+v", query, rec.Code, reply)
			continue
		}
		if c := reply.Hours[0].Classes; c[0].Class != "slash32" || c[1].Class != "userAgent" || c[2].Class != "gone" {
			t.Errorf("%q: the classes are %+v", query, c)
		}
	}
}
