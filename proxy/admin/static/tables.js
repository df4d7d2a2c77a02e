// This module makes the tables of pages, keys, the queue and verdicts.

import { el, foreign, named, svg } from './dom.js';
import { clock, count, cpus, groups, percent, plain, rate, seconds } from './format.js';
import { explain, explainable, verdict } from './side.js';
import { Table } from './table.js';

// Makes a bar of the groups that use a page, with their names and parts as text.
function shares(of, total) {
  const text = groups.filter((g) => of?.[g] > 0).map((g) => `${g} ${percent(of[g] / (total || 1))}`).join(', ');
  let x = 0;
  const parts = groups.map((g) => {
    const width = total > 0 ? (100 * (of?.[g] ?? 0)) / total : 0;
    x += width;
    return svg('rect', { class: `g-${g}-bar`, x: x - width, y: 0, width, height: 10 });
  });
  return el('span', { class: 'shares' }, svg('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' }, ...parts), el('span', { class: 'shares-text' }, text));
}

const parts = (title, rows, known) => el('div', null, el('h3', null, title), rows?.length
  ? el('table', null, el('thead', null, el('tr', null, ...['Name', 'CPUs', 'Req/s', 'CPU each'].map((h, i) => el('th', { scope: 'col', class: i ? 'num' : null }, h)))),
    el('tbody', null, ...rows.map((r) => el('tr', null, el('th', { scope: 'row', class: 'long' }, known ? explainable(r.name) : foreign(r.name)),
      el('td', { class: 'num' }, cpus(r.cpu)), el('td', { class: 'num' }, rate(r.rate)), el('td', { class: 'num' }, seconds(r.mean))))))
  : el('p', { class: 'muted' }, 'none'));

export const shapesTable = (table) => new Table(table, {
  caption: 'Pages by CPU, most expensive first', empty: 'No page used the CPU recently.', key: (r) => r.shape,
  detail: (r) => el('div', { class: 'detail' }, parts('Most expensive parameters', r.parameters, false), parts('Most expensive networks', r.networks, true)),
  columns: [
    { head: 'Page', long: true, cell: (r, t, key) => el('span', { class: 'with-expand' }, t.expander(r, key, `Parameters and networks of ${plain(r.shape)}`), explainable(r.shape)) },
    { head: 'CPUs', num: true, cell: (r) => cpus(r.cpu) },
    { head: 'Req/s', num: true, cell: (r) => rate(r.rate) },
    { head: 'CPU each', num: true, cell: (r) => seconds(r.mean) },
    { head: 'Addresses', num: true, cls: 'p2', cell: (r) => count(r.addresses) },
    { head: 'Groups', cls: 'p2', cell: (r) => shares(r.groups, r.cpu) },
  ],
});

export const keysTable = (table) => new Table(table, {
  caption: 'Keys of the class by CPU, most expensive first', empty: 'No key was charged recently.', key: (r) => `${r.class} ${r.id}`,
  columns: [
    { head: 'Key', long: true, cell: (r) => (r.id === '' ? foreign('') : el('button', { type: 'button', class: 'who', onclick: () => explain(r.id, { class: r.class, key: r.id }) }, el('bdi', { dir: 'ltr', class: 'foreign' }, plain(r.id)))) },
    { head: 'CPUs', num: true, cell: (r) => cpus(r.cpu) },
    { head: 'Req/s', num: true, cell: (r) => rate(r.rate) },
    { head: 'CPU balance', num: true, cell: (r) => `${r.level < 0 ? '−' : ''}${seconds(Math.abs(r.level))}` },
    { head: 'Mean wait', num: true, cls: 'p2', cell: (r) => seconds(r.wait) },
    { head: 'Running', num: true, cls: 'p2', cell: (r) => count(r.running) },
    { head: 'Waiting', num: true, cls: 'p2', cell: (r) => count(r.waiting) },
  ],
});

// Shows the client of a row, and the instance if the page shows several.
const client = (r) => (r.instance ? el('span', null, explainable(r.client), ` at ${plain(r.instance)}`) : explainable(r.client));

export const queueTable = (table) => new Table(table, {
  caption: 'Waiting requests, the longest wait first', empty: 'No request is waiting.', key: (r) => `${r.instance} ${r.client} ${r.method} ${r.host} ${r.url}`,
  columns: [
    { head: 'Client', cell: client },
    { head: 'Group', cls: 'p2', cell: (r) => named(r.group) },
    { head: 'Agent', cls: 'p3 short', cell: (r) => foreign(r.agent) },
    { head: 'Page', long: true, cell: (r) => el('span', null, `${plain(r.method)} `, foreign(r.url)) },
    { head: 'Age', num: true, cell: (r) => seconds(r.age) },
    { head: 'CPU guess', num: true, cls: 'p2', cell: (r) => `${r.sure ? '' : '~ '}${seconds(r.guess)}` },
    { head: 'Before', num: true, cls: 'p2', cell: (r) => (r.before < 0 ? '–' : count(r.before)) },
    { head: 'Why', cls: 'p2 why whole', cell: (r) => plain(r.why) },
  ],
});

export const recentTable = (table) => new Table(table, {
  caption: 'Recent verdicts, the newest first', empty: 'No verdict recently.', key: (r) => r.id || `${r.at} ${r.client} ${r.url}`,
  columns: [
    { head: 'Time', cls: 'p2', cell: (r) => clock(r.at) },
    { head: 'Client', cell: client },
    { head: 'Group', cls: 'p2', cell: (r) => named(r.group) },
    { head: 'Agent', cls: 'p3 short', cell: (r) => foreign(r.agent) },
    { head: 'Page', long: true, cls: 'p2', cell: (r) => el('span', null, `${plain(r.method)} `, foreign(r.url)) },
    { head: 'What', cls: 'what', cell: (r) => (r.id ? explainable(r.id, verdict(r)) : verdict(r)) },
    { head: 'Why', cls: 'why', cell: (r) => reason(r) },
    { head: 'Waited', num: true, cls: 'p2', cell: (r) => seconds(r.waited) },
    { head: 'CPU cost', num: true, cls: 'p3', cell: (r) => seconds(r.cost) },
  ],
});

const reason = (r) => (r.class ? el('span', null, `${plain(r.reason)} of ${plain(r.class)} `, el('button', { type: 'button', class: 'who', onclick: () => explain(r.key, { class: r.class, key: r.key }) }, el('bdi', { dir: 'ltr', class: 'foreign' }, plain(r.key)))) : r.reason === 'none' ? '–' : plain(r.reason));
