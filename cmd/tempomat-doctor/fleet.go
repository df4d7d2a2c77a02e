package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"tempomat/config"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	fleetTimeout = 800 * time.Millisecond // time limit for each of several instances to answer; a command then takes at most a second
	askedAgain   = 5 * time.Second        // the pause before the next request to an instance that didn't answer
	mostOfEach   = 1000                   // rows requested from each of several instances
)

// usualFile is the path that the manual uses for the file with admin.web's token.
const usualFile = "/etc/tempomat/admin.token"

// fleet contains the instances of tempomat-proxy to which a command sends its requests, all at the same time.
type fleet struct {
	all     []*client
	timeout time.Duration // time limit for each instance, if there are several

	mu     sync.Mutex // guards the fields below
	faults map[*client]fault
}

// fault is the reason why an instance gave no answer.
type fault struct {
	at  time.Time
	err error
}

// answer is the document that an instance sent.
type answer struct {
	from *client
	body []byte
}

// fleet finds the instances. It uses --socket, otherwise the environment, otherwise the default. With --fleet, it
// adds the instances that this instance knows.
func (d *doctor) fleet(ctx context.Context) (*fleet, error) {
	if d.asked != nil {
		return d.asked, nil
	}
	f := &fleet{timeout: fleetTimeout, faults: make(map[*client]fault)}
	for _, address := range d.sockets {
		if err := d.add(f, cmp.Or(address, config.Default().Admin.Listen)); err != nil {
			return nil, err
		}
	}
	if len(f.all) == 0 {
		listen := variable(d.env, listenVariable)
		f.all = []*client{newClient(proxyProgram, cmp.Or(listen, config.Default().Admin.Listen), proxyNaming, "")}
		if strings.EqualFold(listen, "off") {
			f.all[0].closed = fmt.Errorf("%s is off, so this proxy has no admin socket. Name another socket with --socket", listenVariable)
		}
	}
	if d.wholeFleet {
		if err := d.find(ctx, f); err != nil {
			return nil, err
		}
	}
	d.asked = f
	return f, nil
}

// Names of the programs and of the flags, for messages.
const proxyProgram, masterProgram, proxyNaming = "tempomat-proxy", "tempomat-master", "--socket or " + listenVariable

// add adds the instance at an address.
func (d *doctor) add(f *fleet, address string) (err error) {
	token := ""
	if isURL(address) {
		if token, err = readToken(cmp.Or(d.token, usualFile)); err != nil {
			return err
		}
	}
	program := proxyProgram
	if strings.TrimPrefix(address, "unix:") == strings.TrimPrefix(config.DefaultMaster().Admin.Listen, "unix:") {
		program = masterProgram // reload also works with a master
	}
	f.all = append(f.all, newClient(program, address, proxyNaming, token))
	return nil
}

// find adds the instances that the first one lists.
func (d *doctor) find(ctx context.Context, f *fleet) error {
	if len(f.all) > 1 {
		return errors.New("--fleet finds the other instances itself: give only one --socket")
	}
	var share api.ShareReply
	if err := f.Get(ctx, "/v1/share", nil, &share); err != nil {
		return err
	}
	if share.Known == nil {
		return errors.New("--fleet: the instance has no list of the others, because its coordination.secret is not set. Name all instances with --socket")
	}
	seen := make(map[string]bool) // a restarted instance may be in the list twice
	for _, other := range share.Instances {
		id := other.Name + " " + other.Socket
		if seen[id] {
			continue
		}
		seen[id] = true
		var closed error
		switch {
		case !isURL(other.Admin):
			closed = fmt.Errorf("%s can't be queried: its admin.web is off, or reachable only from its own machine", other.Name)
		case strings.HasPrefix(f.all[0].base, "https:") && !strings.HasPrefix(other.Admin, "https:"):
			closed = fmt.Errorf("%s was skipped: its address is %s, so the token would be sent unencrypted. Name all instances with --socket https://", other.Name, other.Admin)
		}
		if closed != nil {
			f.all = append(f.all, &client{program: proxyProgram, name: other.Name, closed: closed, http: &http.Client{}})
			continue
		}
		if err := d.add(f, other.Admin); err != nil {
			return err
		}
		f.all[len(f.all)-1].name = other.Name
	}
	return nil
}

func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--token: %w. Give the path of the file that admin.token in tempomat.yaml names", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("--token: %s is empty. Give the path of the file that admin.token in tempomat.yaml names", file)
	}
	return token, nil
}

// ask sends a request to all instances, and returns the answers in the order of the instances. If no instance
// answers, it returns an error.
func (f *fleet) ask(ctx context.Context, method, path string, query url.Values, document any) ([]answer, error) {
	var sent []byte
	if document != nil {
		var err error
		if sent, err = json.Marshal(document); err != nil {
			return nil, err
		}
	}
	ask := func(ctx context.Context, c *client) ([]byte, error) {
		var body io.Reader
		if sent != nil {
			body = bytes.NewReader(sent)
		}
		return c.send(ctx, method, path, query, body)
	}
	if len(f.all) == 1 {
		body, err := ask(ctx, f.all[0])
		return []answer{{f.all[0], body}}, err
	}
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	answers, faults := make([]answer, len(f.all)), make([]error, len(f.all))
	var asking sync.WaitGroup
	for i, c := range f.all {
		answers[i].from = c
		if !f.rests(c) {
			asking.Go(func() { answers[i].body, faults[i] = ask(limited, c) })
		}
	}
	asking.Wait()
	f.note(answers, faults)
	answers = slices.DeleteFunc(answers, func(a answer) bool { return a.body == nil })
	if len(answers) > 0 {
		return answers, nil
	}
	for i, c := range f.all {
		if faults[i] != nil {
			faults[i] = named(c, faults[i])
		}
	}
	return nil, cmp.Or(errors.Join(faults...), f.missing())
}

// rests reports whether to skip an instance for now because it didn't answer a moment ago. Waiting for it again would
// delay the answers of the others.
func (f *fleet) rests(c *client) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.faults[c].at) < askedAgain
}

// note stores why instances gave no answer. A 404 isn't a fault, because it only means that the instance doesn't have
// the key or the document.
func (f *fleet) note(answers []answer, faults []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, err := range faults {
		var refused *refusal
		switch {
		case answers[i].body != nil || errors.As(err, &refused) && refused.status == http.StatusNotFound:
			delete(f.faults, answers[i].from)
		case err != nil:
			f.faults[answers[i].from] = fault{time.Now(), err}
		}
	}
}

// named adds the instance's name to an error, unless the error contains it.
func named(c *client, err error) error {
	if strings.Contains(err.Error(), c.name) {
		return err
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// missing returns the reasons why instances gave no answer, or nil if all answered.
func (f *fleet) missing() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for _, c := range f.all {
		if x, is := f.faults[c]; is {
			all = append(all, named(c, x.err))
		}
	}
	return errors.Join(all...)
}

// heard returns the number of instances that answer.
func (f *fleet) heard() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) - len(f.faults)
}

// Get implements view.Source. It requests a document and decodes it into reply. The documents of several
// instances are joined.
func (f *fleet) Get(ctx context.Context, path string, query url.Values, reply any) error {
	limit, _ := strconv.Atoi(query.Get("limit")) // 0: no limit
	if limit > 0 && len(f.all) > 1 {             // a row may be among the first of the fleet, but not of any instance
		query = maps.Clone(query)
		query.Set("limit", strconv.Itoa(max(limit, min(limit*len(f.all), mostOfEach))))
	}
	answers, err := f.ask(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	if len(f.all) == 1 {
		return understand(path, answers[0].body, reply)
	}
	if r, is := reply.(*api.ExplainReply); is {
		return explainTogether(r, path, answers)
	}
	for i, a := range answers {
		x := reflect.New(reflect.TypeOf(reply).Elem())
		if err := understand(path, a.body, x.Interface()); err != nil {
			return named(a.from, err)
		}
		sayWhose(x.Interface(), a.from.name)
		if i == 0 {
			reflect.ValueOf(reply).Elem().Set(x.Elem())
		} else {
			join(reflect.ValueOf(reply).Elem(), x.Elem(), "")
		}
	}
	switch r := reply.(type) {
	case *api.OverviewReply:
		r.Release += fmt.Sprintf(" on %d of %d instances", len(answers), len(f.all))
		if missing := f.missing(); missing != nil {
			r.Conditions = append([]api.Condition{{
				Name: "instances", Bad: true,
				What: fmt.Sprintf("%d of %d instances don't answer: %s.", len(f.all)-len(answers), len(f.all), strings.ReplaceAll(missing.Error(), "\n", "; ")),
				Do:   "Start them again. Until then, their requests aren't shown.",
			}}, r.Conditions...)
		}
	case *api.BucketsReply:
		r.Total = max(r.Total, len(r.Rows)) // each instance may know rows that the others don't
		if order := telemetry.Orders()[r.Sort]; order != nil {
			slices.SortFunc(r.Rows, order)
		}
		r.Rows = firstOf(r.Rows, limit)
	case *api.ShapesReply:
		r.Rows = firstOf(r.Rows, limit)
	case *api.QueueReply:
		r.Rows = firstOf(r.Rows, limit)
	case *api.RecentReply:
		r.Rows = firstOf(r.Rows, limit)
	}
	return nil
}

// firstOf returns the first rows, at most limit of them. A limit of 0 means all rows.
func firstOf[T any](rows []T, limit int) []T {
	if limit == 0 {
		return rows
	}
	return rows[:min(limit, len(rows))]
}

// sayWhose adds an instance's name to the rows of its document.
func sayWhose(document any, name string) {
	switch r := document.(type) {
	case *api.OverviewReply:
		for i := range r.Conditions {
			r.Conditions[i].What = name + ": " + r.Conditions[i].What
		}
	case *api.QueueReply:
		for i := range r.Rows {
			r.Rows[i].Instance = name
		}
	case *api.RecentReply:
		for i := range r.Rows {
			r.Rows[i].Instance = name
		}
	case *api.PinsReply:
		for i := range r.Pins {
			r.Pins[i].Instance = name
		}
	}
}

// join adds x, the document of another instance, to sum. The fleet tags of package api determine how.
func join(sum, x reflect.Value, how string) {
	switch sum.Kind() {
	case reflect.Struct:
		joinFields(sum, x)
	case reflect.Pointer:
		if sum.IsNil() {
			sum.Set(x)
		} else if !x.IsNil() {
			join(sum.Elem(), x.Elem(), "")
		}
	case reflect.Slice:
		joinRows(sum, x, how)
	case reflect.Array:
		for i := range sum.Len() {
			join(sum.Index(i), x.Index(i), how)
		}
	case reflect.Map: // its values are numbers
		if sum.IsNil() {
			sum.Set(reflect.MakeMap(sum.Type()))
		}
		for _, key := range x.MapKeys() {
			both := reflect.New(sum.Type().Elem()).Elem()
			if was := sum.MapIndex(key); was.IsValid() {
				both.Set(was)
			}
			join(both, x.MapIndex(key), how)
			sum.SetMapIndex(key, both)
		}
	case reflect.String: // different texts form a list
		if words := strings.Split(sum.String(), ", "); sum.String() == "" {
			sum.Set(x)
		} else if x.String() != "" && !slices.Contains(words, x.String()) {
			sum.SetString(sum.String() + ", " + x.String())
		}
	case reflect.Bool:
		sum.SetBool(sum.Bool() || x.Bool())
	default:
		both := map[string]func(a, b float64) float64{
			"": func(a, b float64) float64 { return a + b }, "max": math.Max, "min": math.Min,
		}[how](numberOf(sum), numberOf(x))
		sum.Set(reflect.ValueOf(both).Convert(sum.Type()))
	}
}

// joinFields joins the fields of two structs. It computes means first, because they need the weights of
// each struct, which are then added up.
func joinFields(sum, x reflect.Value) {
	of := sum.Type()
	for i := range of.NumField() {
		if weight, is := strings.CutPrefix(of.Field(i).Tag.Get("fleet"), "mean "); is {
			a, b := numberOf(sum.Field(i)), numberOf(x.Field(i))
			wa, wb := numberOf(sum.FieldByName(weight)), numberOf(x.FieldByName(weight))
			switch {
			case a < 0 || wa+wb == 0: // a was never measured
				sum.Field(i).SetFloat(max(a, b))
			case b >= 0:
				sum.Field(i).SetFloat((a*wa + b*wb) / (wa + wb))
			}
		}
	}
	for i := range of.NumField() {
		if how := of.Field(i).Tag.Get("fleet"); how != "key" && !strings.HasPrefix(how, "mean ") {
			join(sum.Field(i), x.Field(i), how)
		}
	}
}

// joinRows joins rows that have the same key and appends the others. The tag may require that they are
// sorted.
func joinRows(sum, x reflect.Value, how string) {
	of := sum.Type().Elem()
	var keys []int
	for i := range of.NumField() {
		if of.Field(i).Tag.Get("fleet") == "key" {
			keys = append(keys, i)
		}
	}
	keyOf := func(row reflect.Value) string {
		var key strings.Builder
		for _, i := range keys {
			fmt.Fprintf(&key, "%v\x00", row.Field(i))
		}
		return key.String()
	}
	at := make(map[string]int)
	for i := range sum.Len() {
		at[keyOf(sum.Index(i))] = i
	}
	for i := range x.Len() {
		row := x.Index(i)
		if n, known := at[keyOf(row)]; known && len(keys) > 0 {
			join(sum.Index(n), row, "")
		} else {
			sum.Set(reflect.Append(sum, row))
		}
	}
	if field, is := strings.CutPrefix(how, "by "); is {
		field, rises := strings.CutPrefix(field, "-")
		sort.SliceStable(sum.Interface(), func(i, k int) bool {
			a, b := numberOf(sum.Index(i).FieldByName(field)), numberOf(sum.Index(k).FieldByName(field))
			return a > b && !rises || a < b && rises
		})
	}
}

// numberOf converts any number to a float64; true becomes 1.
func numberOf(v reflect.Value) float64 {
	if v.Kind() == reflect.Bool {
		return map[bool]float64{true: 1}[v.Bool()]
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// understood decodes all answers.
func understood[T any](path string, answers []answer) ([]T, error) {
	all := make([]T, len(answers))
	for i, a := range answers {
		if err := understand(path, a.body, &all[i]); err != nil {
			return nil, named(a.from, err)
		}
	}
	return all, nil
}

// explainTogether combines several explanations: the summary of each instance, and the whole answer of the instance
// at which most of the client's requests wait.
func explainTogether(reply *api.ExplainReply, path string, answers []answer) error {
	all, err := understood[api.ExplainReply](path, answers)
	if err != nil {
		return err
	}
	most := 0
	says := make(map[string][]string) // the names of the instances, by their summary
	for i, e := range all {
		if m := &all[most]; cmp.Or(cmp.Compare(e.Waits, m.Waits), cmp.Compare(len(e.Recent), len(m.Recent)), cmp.Compare(len(e.Sections), len(m.Sections))) > 0 {
			most = i
		}
		says[e.Summary] = append(says[e.Summary], answers[i].from.name)
	}
	*reply = all[most]
	if len(says) == 1 {
		return nil
	}
	name := answers[most].from.name
	reply.Summary = "At " + name + ": " + reply.Summary
	var facts []api.ExplainFact
	for what, names := range says {
		facts = append(facts, api.ExplainFact{Name: api.Names(names), Value: what})
	}
	slices.SortFunc(facts, func(a, b api.ExplainFact) int { return strings.Compare(a.Name, b.Name) })
	reply.Sections = append([]api.ExplainSection{{Title: "Instances; everything below is from " + name, Facts: facts}}, reply.Sections...)
	return nil
}
