// A chart over time in plain SVG. It takes its colours from the style sheet, is sharp on
// every screen, and has a cursor for the mouse and for the keyboard (a slider along time).

import { el, say, svg } from './dom.js';
import { clock } from './format.js';

const margin = { top: 8, right: 8, bottom: 20, left: 44 };

// series: {name, cls, of(point), form: 'area' | 'line', fill, right}; of returns null where
// there is nothing. Areas are stacked in order.
export class Chart {
  constructor({ title, series, format, ceiling, least, right, extra, pick }) {
    Object.assign(this, { title, series, format, ceiling, least, right, extra, pick, points: [], cursor: null });
    const id = `chart-${title.toLowerCase().replace(/[^a-z]+/g, '-')}`;
    this.when = el('span', { class: 'when' });
    this.values = series.map(() => el('span', { class: 'value' }));
    this.legend = el('ul', { class: 'legend' }, ...series.map((s, i) => el('li', null, key(s), el('span', { class: 'name' }, s.name), this.values[i])));
    this.more = el('p', { class: 'note extra' });
    this.axes = svg('g');
    this.marks = svg('g');
    this.line = svg('line', { class: 'cursor', visibility: 'hidden' });
    this.picture = svg('svg', {
      class: 'picture', tabindex: 0, role: 'slider', 'aria-label': `${title}: time`, 'aria-orientation': 'horizontal',
      'aria-valuemin': 0, 'aria-valuemax': 0, 'aria-valuenow': 0, 'aria-describedby': `${id}-hint`,
    }, this.axes, this.marks, this.line);
    this.table = el('table');
    this.numbers = el('details', { class: 'numbers' }, el('summary', { 'aria-label': `${title}: numbers` }, 'Numbers'),
      el('div', { class: 'scroll', role: 'group', tabindex: 0, 'aria-label': `${title}: numbers` }, this.table));
    this.numbers.addEventListener('toggle', () => this.fillTable());
    this.element = el('figure', { class: 'panel chart', 'aria-labelledby': id },
      el('figcaption', null, el('h3', { id }, title), this.when), this.legend, this.more,
      el('div', { class: 'plot' }, this.picture),
      el('p', { id: `${id}-hint`, class: 'hidden' }, 'Arrow keys move in time; Enter shows who it was.'), this.numbers);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.picture.parentElement);
  }

  listen() {
    this.picture.addEventListener('pointermove', (e) => this.point(this.nearest(e)));
    this.picture.addEventListener('pointerleave', () => this.point(null));
    this.picture.addEventListener('click', (e) => this.choose(this.nearest(e)));
    this.picture.addEventListener('blur', () => this.point(null));
    this.picture.addEventListener('keydown', (e) => {
      const last = this.points.length - 1;
      const at = this.cursor ?? last;
      const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageUp: at + 10, PageDown: at - 10, Home: 0, End: last }[e.key];
      if (e.key === 'Enter' || e.key === ' ') this.choose(at);
      else if (to !== undefined) this.point(Math.max(0, Math.min(last, to)));
      else return;
      e.preventDefault();
    });
  }

  choose(i) {
    if (i !== null && this.points[i]) this.pick(this.points[i], this.step);
  }

  nearest(event) {
    if (!this.points.length) return null;
    const box = this.picture.getBoundingClientRect();
    const at = this.from + ((event.clientX - box.left - margin.left) / this.width) * (this.to - this.from);
    let best = 0;
    this.points.forEach((p, i) => {
      if (Math.abs(p.at - at) < Math.abs(this.points[best].at - at)) best = i;
    });
    return best;
  }

  // Shows the values at a point; null: the latest.
  point(i) {
    this.cursor = i;
    const p = this.points[i ?? this.points.length - 1];
    if (!p) return;
    say(this.when, i === null ? 'now' : clock(p.at));
    this.series.forEach((s, n) => say(this.values[n], this.written(s, p)));
    if (this.extra) say(this.more, this.extra(p));
    const x = this.x(p.at);
    this.line.setAttribute('visibility', i === null ? 'hidden' : 'visible');
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: margin.top, y2: margin.top + this.height })) this.line.setAttribute(name, value);
    this.picture.setAttribute('aria-valuenow', String(i ?? this.points.length - 1));
    this.picture.setAttribute('aria-valuetext', `${clock(p.at)}: ${this.series.map((s) => `${s.name} ${this.written(s, p)}`).join(', ')}`);
  }

  written(s, p) {
    const v = s.of(p);
    return v === null ? '–' : (s.format ?? this.format)(v);
  }

  show(points, from, to, step) {
    const focused = this.cursor !== null ? this.points[this.cursor]?.at : null;
    Object.assign(this, { points, from, to, step });
    this.cursor = focused === null ? null : Math.max(0, points.findIndex((p) => p.at >= focused));
    this.picture.setAttribute('aria-valuemax', String(Math.max(0, points.length - 1)));
    this.draw();
    if (this.numbers.open) this.fillTable();
  }

  x(at) {
    return margin.left + ((at - this.from) / (this.to - this.from)) * this.width;
  }

  draw() {
    const box = this.picture.parentElement.getBoundingClientRect();
    if (!this.points.length || box.width < 50) return;
    this.picture.setAttribute('viewBox', `0 0 ${box.width} ${box.height}`);
    this.width = box.width - margin.left - (this.right ? margin.left - 8 : margin.right);
    this.height = box.height - margin.top - margin.bottom;
    const left = this.scale(false);
    const right = this.right ? this.scale(true) : null;
    this.axes.replaceChildren(...this.grid(left, right));
    this.marks.replaceChildren(...this.areas(left), ...this.lines(left, right));
    this.point(this.cursor);
  }

  // The values of one side as heights.
  scale(right) {
    let most = right ? 0 : this.least ?? 0;
    for (const p of this.points) {
      let sum = 0;
      for (const s of this.series.filter((s) => Boolean(s.right) === right)) {
        const v = s.of(p) ?? 0;
        if (s.form === 'area') sum += v;
        most = Math.max(most, v, sum);
      }
    }
    const step = steps(right ? this.right.whole : this.whole, (this.ceiling && !right ? Math.min(most, this.ceiling) : most) || 1, Math.max(2, Math.floor(this.height / 32)));
    const top = this.ceiling && !right ? this.ceiling : Math.ceil(most / step - 1e-9) * step || step;
    return { step, top, y: (v) => margin.top + this.height * (1 - Math.min(v, top) / top) };
  }

  grid(left, right) {
    const parts = [];
    const end = margin.left + this.width;
    for (let n = 0; n * left.step <= left.top * 1.0001; n++) {
      const v = n * left.step;
      parts.push(svg('line', { class: n ? 'grid' : 'axis', x1: margin.left, x2: end, y1: left.y(v), y2: left.y(v) }),
        svg('text', { class: 'tick', x: margin.left - 6, y: left.y(v) + 4, 'text-anchor': 'end' }, this.tick(v, left.step)));
    }
    if (right) {
      for (let n = 0; n * right.step <= right.top * 1.0001; n++) {
        parts.push(svg('text', { class: 'tick', x: end + 6, y: right.y(n * right.step) + 4 }, String(Math.round(n * right.step))));
      }
    }
    for (const at of this.times()) {
      parts.push(svg('line', { class: 'grid', x1: this.x(at), x2: this.x(at), y1: margin.top, y2: margin.top + this.height }),
        svg('text', { class: 'tick', x: this.x(at), y: margin.top + this.height + 15, 'text-anchor': 'middle' }, clock(at, false)));
    }
    return parts;
  }

  tick(v, step) {
    return this.format(v, step);
  }

  // Round times of day, as many as there is room for.
  times() {
    const room = Math.max(2, Math.floor(this.width / 80));
    const span = this.to - this.from;
    const every = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600].find((s) => span / s <= room) ?? 43200;
    const zone = new Date(this.to * 1000).getTimezoneOffset() * 60;
    const all = [];
    for (let at = Math.ceil((this.from - zone) / every) * every + zone; at <= this.to; at += every) {
      const x = this.x(at);
      if (x > margin.left + 18 && x < margin.left + this.width - 12) all.push(at);
    }
    return all;
  }

  areas({ y }) {
    const below = this.points.map(() => 0);
    return this.series.filter((s) => s.form === 'area').flatMap((s) => {
      const above = this.points.map((p, i) => below[i] + (s.of(p) ?? 0));
      if (above.every((v, i) => v === below[i])) return [];
      const edges = this.runs(() => true).map((run) => {
        const top = run.map((i) => `${f(this.x(this.points[i].at))} ${f(y(above[i]))}`);
        const foot = run.toReversed().map((i) => `${f(this.x(this.points[i].at))} ${f(y(below[i]))}`);
        return { edge: `M${top.join('L')}`, area: `M${top.join('L')}L${foot.join('L')}Z` };
      });
      above.forEach((v, i) => { below[i] = v; });
      return [svg('path', { class: 'area', fill: s.fill, d: edges.map((e) => e.area).join('') }),
        svg('path', { class: `edge ${s.cls}`, d: edges.map((e) => e.edge).join('') })];
    });
  }

  lines(left, right) {
    return this.series.filter((s) => s.form === 'line').map((s) => {
      const { y } = s.right ? right : left;
      const d = this.runs((p) => s.of(p) !== null).map((run) => {
        const path = run.map((i) => `${f(this.x(this.points[i].at))} ${f(y(s.of(this.points[i])))}`);
        return `M${path.join('L')}${path.length === 1 ? 'h.01' : ''}`; // alone it is a dot
      });
      return svg('path', { class: `line ${s.cls}`, d: d.join('') });
    });
  }

  // The points that belong together: without a gap, and with a value.
  runs(has) {
    const runs = [];
    let run = null;
    this.points.forEach((p, i) => {
      const gap = i > 0 && p.at - this.points[i - 1].at > 3.5 * this.step;
      if (gap) run = null;
      if (!has(p)) run = null;
      else if (run) run.push(i);
      else runs.push(run = [i]);
    });
    return runs;
  }

  // The same numbers for those who do not see the picture: at most thirty moments.
  fillTable() {
    if (!this.numbers.open) return;
    const every = Math.ceil(this.points.length / 30);
    const shown = this.points.filter((_, i) => (this.points.length - 1 - i) % every === 0).toReversed();
    this.table.replaceChildren(el('caption', { class: 'hidden' }, `${this.title}, the latest first`),
      el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'Time'), ...this.series.map((s) => el('th', { scope: 'col', class: 'num' }, s.name)))),
      el('tbody', null, ...shown.map((p) => el('tr', null, el('th', { scope: 'row' }, clock(p.at)),
        ...this.series.map((s) => el('td', { class: 'num' }, this.written(s, p)))))));
  }
}

const f = (x) => x.toFixed(1);

const key = (s) => svg('svg', { class: 'sign', width: 16, height: 12, viewBox: '0 0 16 12', 'aria-hidden': 'true', focusable: 'false' },
  s.form === 'area' ? svg('rect', { class: s.cls, x: 0.5, y: 0.5, width: 15, height: 11, rx: 2, fill: s.fill }) : svg('path', { class: `line ${s.cls}`, d: 'M1 6h14' }));

// The distance of grid lines: 1, 2 or 5 times a power of ten.
function steps(whole, most, room) {
  const rough = most / room;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  return whole ? Math.max(1, step) : step;
}
