package admin

import (
	"strings"
	"testing"

	"tempomat/proxy/admin/api"
)

func inside() Inside {
	return Inside{
		Overview: func() api.OverviewReply { return api.OverviewReply{Version: 1, CPU: 1.5} },
		Shapes: func(limit int) api.ShapesReply {
			return api.ShapesReply{Version: 1, Rows: make([]api.ShapeRow, limit)}
		},
		Recent: func(limit int, _ bool) api.RecentReply {
			return api.RecentReply{Version: 1, Rows: make([]api.VerdictRow, limit)}
		},
		Series: func(minutes int) (api.SeriesReply, bool) {
			return api.SeriesReply{Version: 1, Step: float64(minutes)}, minutes == 5 || minutes == 60
		},
	}
}

func TestInside(t *testing.T) {
	var overview api.OverviewReply
	if ask(t, options(), "GET", "/v1/overview", &overview); overview.CPU != 1.5 {
		t.Errorf("%+v", overview)
	}
	for query, want := range map[string]int{"": 50, "?limit=3": 3} {
		var shapes api.ShapesReply
		var recent api.RecentReply
		ask(t, options(), "GET", "/v1/shapes"+query, &shapes)
		ask(t, options(), "GET", "/v1/recent"+query, &recent)
		if len(shapes.Rows) != want || len(recent.Rows) != want {
			t.Errorf("%q: %d shapes, %d recent", query, len(shapes.Rows), len(recent.Rows))
		}
	}
	for query, want := range map[string]float64{"": 5, "?minutes=60": 60} {
		var series api.SeriesReply
		if ask(t, options(), "GET", "/v1/series"+query, &series); series.Step != want {
			t.Errorf("%q: %+v", query, series)
		}
	}
	for target, want := range map[string]string{
		"/v1/shapes?limit=0": "limit", "/v1/recent?limit=x": "limit", "/v1/overview?x=1": "known: none",
		"/v1/series?minutes=6": "known: 5, 60, 1440", "/v1/series?minutes=x": "known: 5, 60, 1440",
	} {
		var e api.ErrorReply
		if rec := ask(t, options(), "GET", target, &e); rec.Code != 400 || !strings.Contains(e.Error, want) {
			t.Errorf("%s: %d %+v", target, rec.Code, e)
		}
	}
}
