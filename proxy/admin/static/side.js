// This module fills the panel at the side, which explains a client, a page or a request.

import { byId, el, foreign, say } from './dom.js';
import { get, hasToken, post } from './api.js';
import { clock, count, plain, seconds } from './format.js';

let opener = null;
let latest = 0; // number of the last question; answers to earlier questions come too late

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

// Explains an address, a page or a request. account is its class and key, if they are known.
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

// Makes the buttons that forgive debts. The proxy requires the token for this.
function forgiving(all) {
  if (!all.length) return null;
  if (!hasToken()) {
    return section('Forgive', el('p', { class: 'note' }, 'You can forgive debts once you have entered the token.'),
      el('button', { type: 'button', onclick: () => byId('token').click() }, 'Enter the token…'));
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
