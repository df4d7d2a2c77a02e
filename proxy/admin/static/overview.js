// This module fills the header of the page, which shows the state of the server in figures and in a sentence,
// and the panel Health, which shows the state of sharing with other instances.

import { byId, el, named, say, svg } from './dom.js';
import { count, cpus, groups, percent, plain, rate, seconds } from './format.js';
import { Table } from './table.js';

const figures = new Map();

function figure(id, name, value, note, bar) {
  let parts = figures.get(id);
  if (!parts) {
    parts = { value: el('span', { id, class: 'big' }), note: el('span', { class: 'note' }), bar: el('span', { class: 'gauge' }) };
    figures.set(id, parts);
    byId('figures').append(el('div', { class: `figure f-${id}` }, el('dt', null, name), el('dd', null, parts.value, parts.note, parts.bar)));
  }
  say(parts.value, value);
  say(parts.note, note);
  if (bar) parts.bar.replaceChildren(bar);
}

let table;

export function showOverview(o, shapes) {
  say(byId('release'), `${plain(o.release)} · ${plain(o.mode)} · up ${seconds(o.uptime)}`);
  const waiting = o.groups.reduce((sum, g) => sum + g.waiting, 0);
  const longest = Math.max(0, ...o.groups.map((g) => g.longest));
  figure('cpu', 'CPU used', cpus(o.cpu), `of ${cpus(o.cpus)} CPUs, ${percent(o.cpu / (o.cpus || 1))}`, gauge(o));
  figure('waiting', 'Waiting', count(waiting), waiting ? `longest ${seconds(longest)}` : 'none');
  figure('strangers', 'Strangers', count(o.strangers.addresses), `addresses, ${cpus(o.strangers.cpu)} CPUs, ${count(o.strangers.waiting)} waiting${o.strangers.waiting ? `, longest ${seconds(o.strangers.longest)}` : ''}`);
  figure('wasted', 'Wasted', cpus(o.wasted), `CPUs, for clients that had disconnected, ${percent(o.wasted / (o.cpu || 1))}`);
  figure('turned', 'Rejected', rate(o.groups.reduce((sum, g) => sum + g.refused, 0)), `per second, ${rate(o.groups.reduce((sum, g) => sum + g.redirected, 0))} redirected`);
  figure('backend', 'Backend', count(o.gate.busy), `${o.gate.workers > 0 ? `of ${count(o.gate.workers)} workers busy` : 'workers busy'}${o.gate.utilisation >= 0 ? `, CPU ${percent(o.gate.utilisation)} in use now` : ''}`);
  table ??= groupTable();
  const all = { name: 'all', cpu: o.cpu, waiting, longest };
  for (const field of ['rate', 'refused', 'redirected']) all[field] = o.groups.reduce((sum, g) => sum + g[field], 0);
  const rows = groups.map((name) => o.groups.find((g) => g.name === name)).filter(Boolean);
  table.show([...rows, all].map((g) => ({ total: o.cpu, ...g })));
  showConditions(o.conditions ?? []);
  say(byId('finding'), finding(o, shapes));
  document.title = `${o.conditions?.length ? '! ' : ''}${count(waiting)} waiting, CPU ${percent(o.cpu / (o.cpus || 1))}: tempomat`;
}

// Shows the conditions, the worst first, each with an action. Screen readers read changes aloud.
let shownConditions = '';
function showConditions(all) {
  const text = all.map((c) => `${c.what} ${c.do}`).join('\n');
  if (text === shownConditions) return;
  shownConditions = text;
  byId('conditions').hidden = all.length === 0;
  byId('conditions').replaceChildren(...all.map((c) => el('li', { class: c.bad ? 'bad' : 'warning' }, el('strong', null, plain(c.what)), ' ', plain(c.do))));
}

// Shows the CPU use as a bar, by group.
function gauge(o) {
  const most = Math.max(o.cpus, o.cpu) || 1;
  let x = 0;
  const parts = groups.map((name) => {
    const width = (100 * (o.groups.find((g) => g.name === name)?.cpu ?? 0)) / most;
    x += width;
    return svg('rect', { class: `g-${name}-bar`, x: x - width, y: 0, width, height: 6 });
  });
  return svg('svg', { viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' }, svg('rect', { class: 'gauge-all', width: 100, height: 6 }), ...parts);
}

// Names the group and the page that use most of the CPU, in a sentence.
function finding(o, shapes) {
  const sampled = o.sampled > 0 && o.sampled < 1 ? ` Pages and percentiles are based on ${percent(o.sampled)} of the requests.` : '';
  if (o.cpu < 0.05 * o.cpus || o.cpu < 0.005) return `Requests hardly use the CPUs.${sampled}`;
  const top = o.groups.reduce((a, b) => (b.cpu > a.cpu ? b : a));
  const sentences = [`Most CPU: ${top.name}, ${percent(top.cpu / o.cpu)} (${cpus(top.cpu)} of ${cpus(o.cpu)} CPUs used).`];
  const page = shapes?.rows?.[0];
  if (page && page.cpu > 0) {
    const net = page.networks?.[0];
    const from = net ? `, ${percent(net.cpu / page.cpu)} of it for ${plain(net.name)}` : '';
    sentences.push(`Most expensive page: ${plain(page.shape)}, ${cpus(page.cpu)} CPUs for ${count(page.addresses)} ${page.addresses === 1 ? 'address' : 'addresses'}${from}.`);
  }
  const waits = o.groups.filter((g) => g.waiting > 0).map((g) => `${count(g.waiting)} ${g.name}`);
  sentences.push(waits.length ? `Waiting: ${waits.join(', ')}.` : 'No request is waiting.');
  return sentences.join(' ') + sampled;
}

const time = (s) => (s > 0 ? seconds(s) : '–');

function groupTable() {
  return new Table(byId('groups'), {
    caption: 'Groups of clients, now', empty: '', key: (g) => g.name,
    columns: [
      { head: 'Group', cell: (g) => (g.name === 'all' ? el('span', { class: 'group all' }, 'all') : named(g.name)) },
      { head: 'CPUs', num: true, cell: (g) => cpus(g.cpu) },
      { head: 'of all', num: true, cls: 'p2', cell: (g) => percent(g.total > 0 ? g.cpu / g.total : 0) },
      { head: 'Req/s', num: true, cls: 'p2', cell: (g) => rate(g.rate) },
      { head: 'p50', num: true, cls: 'p2', cell: (g) => time(g.p50) },
      { head: 'p95', num: true, cell: (g) => time(g.p95) },
      { head: 'Refused/s', num: true, cls: 'p3', cell: (g) => rate(g.refused) },
      { head: 'Redirected/s', num: true, cls: 'p3', cell: (g) => rate(g.redirected) },
      { head: 'Waiting', num: true, cell: (g) => count(g.waiting) },
      { head: 'Longest', num: true, cell: (g) => time(g.longest) },
    ],
  });
}

// Shows a line for each master, Redis or instance with which accounts are shared, and then the numbers.
export function showHealth(share, overview) {
  const lines = share.lines ? share.lines.map((l) => line(plain(l.name), l.well, plain(l.text))) // the doctor sends lines for several instances
    : [line('This proxy', true, overview ? `${overview.mode}, up ${seconds(overview.uptime)}` : 'answers')];
  if (share.trouble) lines.push(line(`Sharing (${plain(share.kind)})`, false, plain(share.trouble)));
  const state = share.state;
  if (Array.isArray(state)) { // smockron: a link to each master
    for (const link of state) lines.push(line(`Master ${plain(link.master ?? '')}`, link.present, link.present ? (link.synced ? 'connected' : 'connected, learning') : "can't be reached"));
  } else if (state && 'connected' in state) {
    lines.push(line('Redis', state.connected, state.connected ? 'connected' : plain(state.lastError ?? "can't be reached")));
  } else if (state && 'sidecars' in state) {
    lines.push(line('Other instances', state.sidecars > 1, count(state.sidecars - 1)));
  }
  const bad = lines.filter((l) => l.dataset.well === 'no').length;
  say(byId('health-note'), bad ? `${bad} ${bad === 1 ? 'needs' : 'need'} a look` : 'all up');
  const numbers = flat(state).slice(0, 60);
  const open = byId('health').querySelector('details')?.open;
  byId('health').replaceChildren(el('ul', { class: 'lines' }, ...lines),
    share.lines ? '' : share.kind === 'none' ? el('p', { class: 'note' }, 'Accounts are not shared with other instances.')
      : el('details', { open }, el('summary', null, `Sharing by ${plain(share.kind)}: numbers`),
        el('dl', { class: 'facts' }, ...numbers.flatMap(([name, value]) => [el('dt', null, plain(name)), el('dd', null, plain(value))]))));
}

const line = (name, well, text) => el('li', { 'data-well': well ? 'yes' : 'no' },
  el('span', { class: 'well' }, well ? '✓ up' : '! look'), el('span', { class: 'name' }, name), el('span', { class: 'muted' }, text));

// Lists the values of a document, each with its path.
function flat(value, path = '') {
  if (value === null || value === undefined) return [];
  if (typeof value !== 'object') return [[path, String(value)]];
  return Object.entries(value).flatMap(([name, v]) => flat(v, path ? `${path}.${name}` : name));
}
