package top

import (
	"context"
	"net/url"
	"strconv"

	"tempomat/proxy/admin/api"
)

// Source answers with documents of the admin API.
type Source interface {
	Get(ctx context.Context, path string, query url.Values, reply any) error
}

// Data is what was asked for last. What the open pane does not show is as it was when it
// was open.
type Data struct {
	Overview api.OverviewReply
	Shapes   api.ShapesReply
	Queue    api.QueueReply
	Recent   api.RecentReply
	Classes  api.ClassesReply
	Buckets  api.BucketsReply
	Series   api.SeriesReply
}

// Wants says which documents the open pane shows. The overview is always asked for.
type Wants struct {
	Series  bool
	Shapes  int // rows; 0: none
	Queue   bool
	Recent  bool
	Buckets bool
	Class   string // of the keys; "": the first
	Sort    string // what comes first of them
}

// mostRows is how many rows of a document are asked for: more than the tallest screens
// have, as filters look among them.
const mostRows = 200

// How many pages are asked for, as each has many parts: for the overview, and for their pane.
const (
	fewPages  = 20
	mostPages = 50
)

// Fetch asks for documents. It has no time limit of its own. With an error the overview may
// have been answered all the same.
func (w Wants) Fetch(ctx context.Context, from Source) (Data, error) {
	var d Data
	if err := from.Get(ctx, "/v1/overview", nil, &d.Overview); err != nil {
		return Data{}, err
	}
	limit := url.Values{"limit": {strconv.Itoa(mostRows)}}
	for _, ask := range []struct {
		wanted bool
		path   string
		query  url.Values
		reply  any
	}{
		{w.Series, "/v1/series", url.Values{"minutes": {"5"}}, &d.Series},
		{w.Shapes > 0, "/v1/shapes", url.Values{"limit": {strconv.Itoa(w.Shapes)}}, &d.Shapes},
		{w.Queue, "/v1/queue", limit, &d.Queue},
		{w.Recent, "/v1/recent", limit, &d.Recent},
		{w.Buckets, "/v1/classes", nil, &d.Classes},
	} {
		if !ask.wanted {
			continue
		}
		if err := from.Get(ctx, ask.path, ask.query, ask.reply); err != nil {
			return d, err
		}
	}
	if w.Buckets && len(d.Classes.Classes) > 0 {
		class := w.Class
		if class == "" {
			class = d.Classes.Classes[0].Name
		}
		query := url.Values{"class": {class}, "sort": {w.Sort}, "limit": {strconv.Itoa(mostRows)}}
		if err := from.Get(ctx, "/v1/buckets", query, &d.Buckets); err != nil {
			return d, err
		}
	}
	return d, nil
}
