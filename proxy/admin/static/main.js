// This module requests the documents and shows each in its place.

import { get, hasToken, setToken } from './api.js';
import { byId, say } from './dom.js';
import { Live } from './live.js';
import { closeSide, explain } from './side.js';
import { showHealth, showOverview } from './overview.js';
import { keysTable, queueTable, recentTable, shapesTable } from './tables.js';
import { count, plain } from './format.js';

const state = { shapes: null, class: '' };

const shapes = shapesTable(byId('shapes'));
const keys = keysTable(byId('keys'));
const queue = queueTable(byId('queue'));
const recent = recentTable(byId('recent'));

async function loadOverview() {
  const reply = await get('overview');
  state.overview = reply;
  showOverview(reply, state.shapes);
}

async function loadShapes() {
  state.shapes = await get('shapes', { limit: 25 });
  shapes.show(state.shapes.rows);
  say(byId('shapes-note'), `last ${count(state.shapes.seconds)} s`);
  if (state.overview) showOverview(state.overview, state.shapes);
}

async function loadClasses() {
  const select = byId('class');
  const { classes } = await get('classes');
  if ([...select.options].map((o) => o.value).join('\n') !== classes.map((c) => c.name).join('\n')) {
    select.replaceChildren(...classes.map((c) => new Option(plain(c.name), c.name)));
    if (classes.some((c) => c.name === state.class)) select.value = state.class;
    state.class = select.value;
  }
}

async function loadKeys() {
  if (!state.class) return;
  const reply = await get('buckets', { class: state.class, sort: 'cpu', limit: 20 });
  if (reply.class !== state.class) return;
  keys.show(reply.rows);
  say(byId('keys-note'), `${count(reply.rows?.length ?? 0)} of ${count(reply.total)}`);
}

async function loadQueue() {
  const reply = await get('queue', { limit: 50 });
  queue.show(reply.rows);
  say(byId('queue-note'), reply.total === 0 ? 'no request is waiting' : `${count(reply.rows?.length ?? 0)} of ${count(reply.total)}, the longest wait first`);
}

async function loadRecent() {
  recent.show((await get('recent', { limit: 50 })).rows);
}

async function loadHealth() {
  showHealth(await get('share'), state.overview);
}

const notes = (id) => (error) => say(byId(id), plain(error.message));

const live = new Live({
  tell: (text, kind) => {
    byId('state').dataset.state = kind;
    say(byId('state'), text);
  },
  denied: (why) => askToken(why),
  tasks: [
    { run: loadOverview, every: 1000, failed: notes('finding') },
    { run: loadShapes, every: 3000, failed: notes('shapes-note') },
    { run: loadQueue, every: 3000, failed: notes('queue-note') },
    { run: loadRecent, every: 4000 },
    { run: loadClasses, every: 60_000, failed: notes('keys-note') },
    { run: loadKeys, every: 5000, failed: notes('keys-note') },
    { run: loadHealth, every: 10_000, failed: notes('health-note') },
  ],
});

function askToken(why) {
  const dialog = byId('ask-token');
  say(byId('token-fault'), why && hasToken() ? plain(why) : '');
  byId('token-forget').hidden = !hasToken();
  if (!dialog.open) dialog.showModal();
  byId('token-text').focus();
}

byId('token').addEventListener('click', () => askToken(''));
byId('token-cancel').addEventListener('click', () => byId('ask-token').close());
byId('token-forget').addEventListener('click', () => useToken(''));
byId('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  useToken(byId('token-text').value.trim());
});

function useToken(text) {
  setToken(text);
  byId('token-text').value = '';
  byId('ask-token').close();
  showToken();
  live.unlock();
}

const showToken = () => say(byId('token'), hasToken() ? 'Token entered' : 'Token…');

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const of = byId('of').value.trim();
  if (of) explain(of);
});

byId('class').addEventListener('change', (event) => {
  state.class = event.target.value;
  keys.show([]);
  live.hurry(loadKeys);
});

byId('pause').addEventListener('click', (event) => {
  const paused = event.currentTarget.getAttribute('aria-pressed') !== 'true';
  event.currentTarget.setAttribute('aria-pressed', String(paused));
  live.pause(paused);
});

const themes = ['auto', 'light', 'dark'];
const theme = () => document.documentElement.dataset.theme ?? 'auto';
const showTheme = () => say(byId('theme'), `Theme: ${theme()}`);
byId('theme').addEventListener('click', () => {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
  if (next === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === 'auto') localStorage.removeItem('tempomat-theme');
    else localStorage.setItem('tempomat-theme', next);
  } catch {}
  showTheme();
});

byId('side-close').addEventListener('click', closeSide);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !byId('side').hidden && !byId('ask-token').open) closeSide();
});

// Asks for the token at once if it is needed.
async function begin() {
  try {
    if (!hasToken() && (await get('access')).token) {
      live.lock('');
      return;
    }
  } catch {} // the first task will show the error
  live.start();
}

showTheme();
showToken();
begin();
