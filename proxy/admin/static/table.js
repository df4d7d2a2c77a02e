// This module makes tables that change in place. A row keeps its element as long as its key exists,
// so that focus, selection and expanded details are kept.

import { el, say } from './dom.js';

// columns: {head, cell(row), num, cls, long}; cell returns a text or a node.
// detail(row) returns a node that a row expands to; without it, rows don't expand.
export class Table {
  constructor(table, { columns, key, detail, empty, caption, signature }) {
    Object.assign(this, { table, columns, key, detail, empty, signature: signature ?? JSON.stringify });
    this.rows = new Map();
    this.open = new Set();
    const heads = columns.map((c) => el('th', { scope: 'col', class: classes(c) }, c.head));
    this.body = el('tbody');
    table.append(el('caption', { class: 'hidden' }, caption), el('thead', null, el('tr', null, ...heads)), this.body);
    this.none = el('tr', { class: 'none' }, el('td', { colspan: columns.length }, empty));
  }

  show(list) {
    const gone = new Set(this.rows.keys());
    const order = [];
    for (const row of list ?? []) { // Go encodes a nil list as null
      let key = this.key(row);
      for (let n = 2; order.some((o) => o.key === key); n++) key = `${this.key(row)}#${n}`;
      gone.delete(key);
      order.push(this.entry(key, row));
    }
    for (const key of gone) {
      this.rows.get(key).line.remove();
      this.rows.get(key).more?.remove();
      this.rows.delete(key);
    }
    const wanted = order.flatMap((o) => (o.more ? [o.line, o.more] : [o.line]));
    place(this.body, wanted.length ? wanted : [this.none]);
  }

  // Makes or updates the elements of a row.
  entry(key, row) {
    let entry = this.rows.get(key);
    if (!entry) {
      entry = { key, line: el('tr', null, ...this.columns.map((c, i) => el(i ? 'td' : 'th', { class: classes(c), scope: i ? null : 'row' }))) };
      this.rows.set(key, entry);
    }
    const signature = this.signature(row);
    if (entry.signature !== signature) {
      entry.signature = signature;
      entry.row = row;
      this.columns.forEach((c, i) => fill(entry.line.children[i], c.cell(row, this, key)));
      if (entry.more) this.fillDetail(entry);
    }
    return entry;
  }

  fillDetail(entry) {
    entry.more.firstChild.replaceChildren(this.detail(entry.row));
  }

  // Makes the button that expands a row, with a label.
  expander(row, key, label) {
    const open = this.open.has(key);
    return el('button', {
      type: 'button', class: 'expand', 'aria-expanded': String(open), 'aria-label': label,
      onclick: (event) => this.toggle(key, event.currentTarget),
    }, open ? '−' : '+');
  }

  toggle(key, button) {
    const entry = this.rows.get(key);
    const open = !this.open.has(key);
    button.setAttribute('aria-expanded', String(open));
    say(button, open ? '−' : '+');
    if (!open) {
      this.open.delete(key);
      entry.more.remove();
      entry.more = null;
      return;
    }
    this.open.add(key);
    entry.more = el('tr', { class: 'more' }, el('td', { colspan: this.columns.length }));
    this.fillDetail(entry);
    entry.line.after(entry.more);
  }
}

const classes = (c) => [c.num && 'num', c.long && 'long', c.cls].filter(Boolean).join(' ') || null;

// Changes texts in place. An equal node stays, and keeps the focus and a click in progress.
// A button's text must therefore determine what the button does.
function fill(cell, content) {
  if (typeof content === 'string') {
    say(cell, content);
    return;
  }
  const old = cell.firstChild;
  if (old && cell.childNodes.length === 1 && content.isEqualNode(old)) return;
  const hadFocus = cell.contains(document.activeElement);
  cell.replaceChildren(content);
  if (hadFocus) cell.querySelector('button, a')?.focus({ preventScroll: true });
}

// Sorts elements and moves as few as possible, because a moved element loses the focus.
function place(parent, wanted) {
  const focus = document.activeElement;
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((element, i) => {
    if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
  });
  if (focus && focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}
