package replay

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// generated is a log of so many lines, made as it is read: a site with two CPUs,
// people who read pages and their style sheets, a crawler, and for some hours a
// botnet of many addresses.
type generated struct {
	lines  int
	span   time.Duration
	begin  time.Time
	random *rand.Rand
	n      int
	now    float64 // seconds
	left   bytes.Buffer
}

const generatedPeople = 3000

func newGenerated(lines int, span time.Duration) *generated {
	return &generated{
		lines: lines, span: span, begin: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// Read implements io.Reader.
func (g *generated) Read(p []byte) (int, error) {
	for g.left.Len() < len(p) && g.n < g.lines {
		g.line()
	}
	if g.left.Len() == 0 {
		return 0, io.EOF
	}
	return g.left.Read(p)
}

// line makes one more.
func (g *generated) line() {
	g.n++
	g.now += g.random.ExpFloat64() * g.span.Seconds() / float64(g.lines)
	address, target, agent, cost := g.person()
	switch hour := int(g.now) / 3600 % 24; {
	case hour >= 10 && hour < 12 && g.random.Float64() < 0.3:
		i := g.random.IntN(20_000)
		address = fmt.Sprintf("100.%d.%d.7", 64+i/256%64, i%256)
		target, agent = fmt.Sprintf("/index.php?title=Page_%d&action=history", g.random.IntN(50_000)), browserAgent(i)
		cost = 6 * time.Second // in a crowd of its like
	case g.random.Float64() < 0.05:
		address, agent = "198.51.100.77", "Mozilla/5.0 (compatible; ExampleBot/2.1; +http://bot.example/)"
		target, cost = fmt.Sprintf("/wiki/Page_%d", g.random.IntN(50_000)), 80*time.Millisecond
	}
	cost = time.Duration(float64(cost) * (0.5 + g.random.Float64()))
	at := g.begin.Add(time.Duration(g.now * float64(time.Second)))
	g.write(at, address, target, agent, cost)
}

func (g *generated) person() (address, target, agent string, cost time.Duration) {
	i := g.random.IntN(generatedPeople)
	address, agent = fmt.Sprintf("10.%d.%d.9", i/200, i%200), browserAgent(i)
	if g.random.Float64() < 0.5 {
		return address, "/skins/theme.css", agent, 400 * time.Microsecond
	}
	return address, fmt.Sprintf("/wiki/Page_%d", g.random.IntN(500)), agent, 30 * time.Millisecond
}

func browserAgent(i int) string {
	return fmt.Sprintf("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", 100+i%40)
}

func (g *generated) write(at time.Time, address, target, agent string, cost time.Duration) {
	fmt.Fprintf(&g.left, "%s - - [%s] \"GET %s HTTP/1.1\" 200 5120 \"-\" \"%s\" %d\n",
		address, at.Format("02/Jan/2006:15:04:05 -0700"), target, agent, cost.Microseconds())
}
