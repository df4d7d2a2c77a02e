// The charts of the page: what of a point each shows, and how.

import { Chart } from './chart.js';
import { count, cpus, groups, percent, rate, seconds } from './format.js';

const stacked = (field) => groups.map((name, i) => ({
  name, form: 'area', cls: `g-${name}-edge`, fill: `url(#fill-${name})`, of: (p) => p[field][i],
}));

const perGroup = (field) => groups.map((name, i) => ({
  name, form: 'line', cls: `g-${name}-line`, of: (p) => (p[field][i] > 0 ? p[field][i] : null),
}));

const axis = (v, step, digits) => (step === undefined ? null : v.toFixed(Math.max(0, Math.min(3, digits ?? -Math.floor(Math.log10(step) + 1e-9)))));

const cpuAxis = (v, step) => axis(v, step) ?? cpus(v);
const timeAxis = (v, step) => (step === undefined ? seconds(v) : v === 0 ? '0' : step < 0.9 && v < 1 ? `${Math.round(v * 1000)} ms` : `${axis(v, step)} s`);
const countAxis = (v) => count(v);
const rateAxis = (v, step) => axis(v, step) ?? rate(v);

// pick(point, step) is told which point was chosen.
export function makeCharts(pick) {
  const cpu = new Chart({
    title: 'CPU by group, CPUs', pick, format: cpuAxis, least: 1,
    series: [...stacked('cpu'), { name: 'wasted', form: 'line', cls: 'c-wasted', of: (p) => p.wasted }],
  });
  const latency = new Chart({ title: 'Time to answer by group, 95th percentile', pick, format: timeAxis, least: 0.1, series: perGroup('p95'),
    extra: (p) => `median: ${groups.map((g, i) => `${g} ${p.p50[i] > 0 ? seconds(p.p50[i]) : '–'}`).join(', ')}` });
  const queue = new Chart({ title: 'Queue, requests that wait', pick, format: countAxis, least: 4, series: stacked('waiting'),
    extra: (p) => `longest wait: ${seconds(p.longest)}` });
  const use = new Chart({
    title: 'CPU measured, and room', pick, format: percent, least: 1, ceiling: 1, right: { whole: true },
    series: [
      { name: 'CPU in use', form: 'area', cls: 'c-use', fill: 'url(#fill-known)', of: (p) => (p.use < 0 ? null : p.use) },
      { name: 'room (right), requests at a time', form: 'line', cls: 'c-room', right: true, format: count, of: (p) => p.room },
    ],
  });
  const workers = new Chart({
    title: 'Workers of the backend', pick, format: countAxis, least: 4,
    series: [
      { name: 'busy', form: 'area', cls: 'c-busy', fill: 'url(#fill-newcomers)', of: (p) => p.busy },
      { name: 'all', form: 'line', cls: 'c-all', of: (p) => (p.workers > 0 ? p.workers : null) },
    ],
  });
  const turned = new Chart({
    title: 'Turned away, requests per second', pick, format: rateAxis, least: 1,
    series: [
      { name: 'refused', form: 'line', cls: 'c-refused', of: (p) => p.refused },
      { name: 'redirected', form: 'line', cls: 'c-redirected', of: (p) => p.redirected },
    ],
  });
  for (const chart of [queue, workers]) chart.whole = true;
  return [cpu, latency, queue, use, workers, turned];
}
