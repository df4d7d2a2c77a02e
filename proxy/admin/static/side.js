// The panel at the side: who somebody is, or who it was at a moment.

import { byId, el, foreign, named, say } from './dom.js';
import { get, hasToken, post } from './api.js';
import { clock, count, cpus, groups, percent, plain, rate, seconds } from './format.js';

let opener = null;
let latest = 0; // the last request for a content; answers to earlier ones are late

export function closeSide() {
  latest++;
  byId('side').hidden = true;
  document.body.classList.remove('with-side');
  if (opener?.isConnected) opener.focus();
  opener = null;
}

function openSide(title) {
  const side = byId('side');
  if (side.hidden || !side.contains(document.activeElement)) opener = document.activeElement;
  say(byId('side-title'), title);
  byId('side-body').replaceChildren(el('p', { class: 'muted' }, 'Asking…'));
  side.hidden = false;
  document.body.classList.add('with-side');
  byId('side-title').focus();
  return ++latest;
}

const fill = (mine, ...parts) => {
  if (mine === latest) byId('side-body').replaceChildren(...parts.flat().filter(Boolean));
};

const section = (title, ...parts) => el('section', null, el('h3', null, title), ...parts);

const facts = (list) => el('dl', { class: 'facts' }, ...list.flatMap((fact) => [
  el('dt', null, plain(fact.name)), el('dd', null, el('bdi', { dir: 'ltr', class: 'foreign' }, plain(fact.value)), fact.means ? el('span', { class: 'means' }, plain(fact.means)) : null),
]));

const kind = (h) => (h.num ? 'num' : h.long ? 'long' : null);

const list = (head, rows) => el('table', null, el('thead', null, el('tr', null, ...head.map((h) => el('th', { scope: 'col', class: kind(h) }, h.name)))),
  el('tbody', null, ...rows.map((row) => el('tr', null, ...row.map((cell, i) => el('td', { class: kind(head[i]) }, cell))))));

export const explainable = (of, text = of) => el('button', { type: 'button', class: 'who', title: `Explain ${plain(of)}`, onclick: () => explain(of) },
  el('bdi', { dir: 'ltr', class: 'foreign' }, plain(text)));

// Shows what is known of an address, a page, a request and so on. account is the class and
// the key that it is charged to, where they are known.
export async function explain(of, account) {
  const mine = openSide(plain(of));
  try {
    const reply = await get('explain', { of });
    const waiting = reply.waiting ?? [];
    const recent = reply.recent ?? [];
    fill(mine, el('p', { class: 'kind' }, plain(reply.kind)), el('p', { class: 'summary' }, plain(reply.summary)),
      reply.advice?.length && section('What would change it', el('ul', null, ...reply.advice.map((a) => el('li', null, plain(a))))),
      ...(reply.sections ?? []).map((s) => section(plain(s.title), facts(s.facts ?? []))),
      forgiving(accounts(account, recent)),
      waiting.length && section(reply.waits > waiting.length ? `Waiting: ${count(reply.waits)}, the first ${waiting.length}` : 'Waiting', waits(waiting)), recent.length && section('Last verdicts', verdicts(recent)));
  } catch (error) {
    fill(mine, el('p', { class: 'fault', role: 'alert' }, plain(error.message)));
  }
}

const accounts = (account, recent) => {
  const all = [account, ...recent.filter((r) => r.class).map((r) => ({ class: r.class, key: r.key }))].filter(Boolean);
  return all.filter((a, i) => all.findIndex((b) => b.class === a.class && b.key === a.key) === i).slice(0, 4);
};

// Lets debts go: only somebody with the token may.
function forgiving(all) {
  if (!all.length) return null;
  if (!hasToken()) {
    return section('Forgive', el('p', { class: 'note' }, 'Debts can be forgiven once the token was given.'),
      el('button', { type: 'button', onclick: () => byId('token').click() }, 'Give the token…'));
  }
  const said = el('p', { role: 'status', class: 'note' });
  return section('Forgive', ...all.map((a) => el('p', null, el('button', {
    type: 'button', class: 'main forgive',
    onclick: async (event) => {
      const button = event.currentTarget;
      button.disabled = true;
      try {
        say(said, plain((await post('forgive', { class: a.class, key: a.key })).done));
      } catch (error) {
        say(said, plain(error.message));
      }
      button.disabled = false;
    },
  }, 'Forgive ', el('span', null, plain(a.class), ' '), foreign(a.key)))), said);
}

const waits = (rows) => list([{ name: 'Client' }, { name: 'Page', long: true }, { name: 'For', num: true }, { name: 'Why', long: true }],
  rows.map((r) => [explainable(r.client), foreign(r.url), seconds(r.age), plain(r.why)]));

const verdicts = (rows) => list([{ name: 'Time' }, { name: 'Client' }, { name: 'Page', long: true }, { name: 'What', long: true }],
  rows.map((r) => [clock(r.at), explainable(r.client), foreign(r.url), `${verdict(r)}: ${plain(r.reason)}`]));

export const verdict = (r) => `${r.shadow ? 'would be ' : ''}${plain(r.outcome)}${r.status ? ` ${r.status}` : ''}${r.times > 1 ? `, ${count(r.times)} times${r.clients > 1 ? ` from ${count(r.clients)} addresses` : ''}` : ''}`;

// Shows who it was at a point of a chart.
export async function moment(point, step, now, current) {
  const mine = openSide(`Who it was at ${clock(point.at)}`);
  const parts = [list([{ name: 'Group' }, { name: 'CPUs', num: true }, { name: 'Req/s', num: true }, { name: 'p95', num: true }, { name: 'Waiting', num: true }],
    groups.map((g, i) => [named(g), cpus(point.cpu[i]), rate(point.rate[i]), point.p95[i] > 0 ? seconds(point.p95[i]) : '–', count(point.waiting[i])]))];
  fill(mine, parts);
  const near = Math.max(step, 2);
  const asked = [get('recent', { limit: 200, each: true }), now - point.at < 90 ? Promise.resolve(null) : get('history', { hours: Math.min(168, Math.ceil((now - point.at) / 3600) + 1) })];
  const [recent, history] = await Promise.allSettled(asked);
  const rows = recent.status === 'fulfilled' ? (recent.value.rows ?? []).filter((r) => Math.abs(r.at - point.at) <= near) : [];
  if (rows.length) parts.push(section(`Verdicts within ${count(near)} s of it`, verdicts(rows.slice(0, 20))));
  if (history.status === 'rejected') parts.push(el('p', { class: 'note' }, `No history: ${plain(history.reason.message)}`));
  else if (history.value === null) parts.push(...recently(current));
  else parts.push(...ofHour((history.value.hours ?? []).find((h) => h.at <= point.at && point.at < h.at + 3600)));
  fill(mine, parts);
}

// The network that asks for most of a page.
const origin = ({ networks, cpu }) => (networks?.length ? fromNetwork(networks[0], cpu) : '–');

const fromNetwork = (net, cpu) => el('span', null, explainable(net.name), ` ${percent(net.cpu / (cpu || 1))}`);

// The dearest pages and networks of the last seconds.
function recently(shapes) {
  if (!shapes?.rows?.length) return [];
  return [section(`Dearest pages of the last ${count(shapes.seconds)} s`, list([{ name: 'Page', long: true }, { name: 'CPUs', num: true }, { name: 'Mostly from' }],
    shapes.rows.slice(0, 8).map((r) => [explainable(r.shape), cpus(r.cpu), origin(r)])))];
}

function ofHour(hour) {
  if (!hour) return [el('p', { class: 'note' }, 'Nothing is kept of that hour.')];
  const dearest = (title, rows) => rows?.length && section(title, list([{ name: 'Who or what', long: true }, { name: 'CPU-seconds', num: true }, { name: 'Requests', num: true }],
    rows.slice(0, 8).map((r) => [explainable(r.name), cpus(r.cpu), count(r.requests)])));
  return [el('p', { class: 'note' }, `In the hour from ${clock(hour.at, false)}: ${cpus(hour.cpu)} CPU-seconds, ${count(hour.requests)} requests, ${count(hour.refused)} refused.`),
    dearest('Dearest pages of that hour', hour.shapes), ...(hour.classes ?? []).map((c) => dearest(`Dearest of ${plain(c.class)}`, c.keys))].filter(Boolean);
}
