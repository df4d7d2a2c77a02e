// This module makes all elements. Texts become text nodes, so texts that clients chose can
// never become markup.

import { plain } from './format.js';

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export const el = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  make(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

export const byId = (id) => document.getElementById(id);

// Changes a text only if it differs, so that selections and screen readers aren't disturbed.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Shows a text that a client chose.
export const foreign = (text, none = '(none)') =>
  text === '' || text === undefined ? el('span', { class: 'muted' }, none) : el('bdi', { dir: 'ltr', class: 'foreign', title: plain(text) }, plain(text));

// Makes the mark of a group: its colour and pattern, shown next to its name.
export const sign = (group) =>
  svg('svg', { class: 'sign', width: 12, height: 12, viewBox: '0 0 12 12', 'aria-hidden': 'true', focusable: 'false' },
    svg('rect', { class: `g-${group}-edge`, x: 0.5, y: 0.5, width: 11, height: 11, rx: 2, fill: `url(#fill-${group})` }));

export const named = (group) => el('span', { class: 'group' }, sign(group), group);
