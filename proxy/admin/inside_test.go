package admin

import (
	"testing"

	"tempomat/proxy/admin/api"
)

func inside() Inside {
	return Inside{
		Overview: func() api.OverviewReply {
			return api.OverviewReply{Version: 1, CPU: 1.5, Conditions: []api.Condition{}}
		},
		Shapes: func(limit int) api.ShapesReply {
			return api.ShapesReply{Version: 1, Rows: make([]api.ShapeRow, limit)}
		},
		Recent: func(limit int) api.RecentReply {
			return api.RecentReply{Version: 1, Rows: make([]api.VerdictRow, limit)}
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
	for query, want := range map[string]int{"": 100, "?limit=1000": 1000} {
		var queue api.QueueReply
		if ask(t, acted(new(actor)), "GET", "/v1/queue"+query, &queue); queue.Total != want {
			t.Errorf("%q: %d in the queue", query, queue.Total)
		}
	}
	var explained api.ExplainReply
	if ask(t, acted(new(actor)), "GET", "/v1/explain?of=a%20b", &explained); explained.Of != "a b" {
		t.Errorf("%+v", explained)
	}
	var pins api.PinsReply
	if ask(t, acted(new(actor)), "GET", "/v1/pins", &pins); pins.Pins == nil {
		t.Errorf("%+v", pins)
	}
}
