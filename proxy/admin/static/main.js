// The page: what is asked for, and where it is shown.

import { get, hasToken, setToken } from './api.js';
import { makeCharts } from './charts.js';
import { byId, say } from './dom.js';
import { Live } from './live.js';
import { closeSide, explain, moment } from './side.js';
import { showHealth, showOverview } from './overview.js';
import { keysTable, queueTable, recentTable, shapesTable } from './tables.js';
import { count, plain } from './format.js';

const state = { minutes: 5, step: 1, points: [], now: Date.now() / 1000, shapes: null, class: '' };

const charts = makeCharts((point, step) => moment(point, step, state.now, state.shapes));
byId('charts').append(...charts.map((c) => c.element));

const shapes = shapesTable(byId('shapes'));
const keys = keysTable(byId('keys'));
const queue = queueTable(byId('queue'));
const recent = recentTable(byId('recent'));

function draw() {
  const to = state.points.at(-1)?.at;
  if (to === undefined) return;
  for (const chart of charts) chart.show(state.points, to - 60 * state.minutes, to, state.step);
}

async function loadSeries() {
  const minutes = state.minutes;
  const reply = await get('series', { minutes });
  if (minutes !== state.minutes) return; // another time was chosen meanwhile
  Object.assign(state, { step: reply.step, points: reply.points ?? [] });
  draw();
}

function took(point) {
  state.now = point.at;
  if (state.minutes !== 5) return;
  const last = state.points.at(-1);
  if (last && point.at <= last.at) return;
  state.points = [...state.points.filter((p) => p.at >= point.at - 300), point];
  draw();
}

// What the overview tells of this moment, as a point of the series.
function pointOf({ now, groups, wasted, use, gate }) {
  const of = (name) => groups.map((g) => g[name]);
  const sum = (name) => of(name).reduce((a, b) => a + b, 0);
  return {
    at: now, cpu: of('cpu'), rate: of('rate'), p50: of('p50'), p95: of('p95'), waiting: of('waiting'), longest: Math.max(...of('longest')),
    refused: sum('refused'), redirected: sum('redirected'), wasted, use, busy: gate.busy, workers: gate.workers, room: gate.room,
  };
}

async function loadOverview() {
  const reply = await get('overview');
  state.now = reply.now;
  state.overview = reply;
  showOverview(reply, state.shapes);
  took(pointOf(reply));
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
  say(byId('queue-note'), reply.total === 0 ? 'nobody waits' : `${count(reply.rows?.length ?? 0)} of ${count(reply.total)}, the longest wait first`);
}

async function loadRecent() {
  recent.show((await get('recent', { limit: 50 })).rows);
}

async function loadHealth() {
  showHealth(await get('share'), state.overview);
}

const every = (ms) => () => ms;
const notes = (id) => (error) => say(byId(id), plain(error.message));

const live = new Live({
  tell: (text, kind) => {
    byId('state').dataset.state = kind;
    say(byId('state'), text);
  },
  denied: (why) => askToken(why),
  resumed: () => live.hurry(loadSeries),
  tasks: [
    { run: loadOverview, every: every(1000), failed: notes('finding') },
    { run: loadSeries, every: () => (state.minutes === 5 ? 60_000 : 10_000) },
    { run: loadShapes, every: every(3000), failed: notes('shapes-note') },
    { run: loadQueue, every: every(3000), failed: notes('queue-note') },
    { run: loadRecent, every: every(4000) },
    { run: loadClasses, every: every(60_000), failed: notes('keys-note') },
    { run: loadKeys, every: every(5000), failed: notes('keys-note') },
    { run: loadHealth, every: every(10_000), failed: notes('health-note') },
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

const showToken = () => say(byId('token'), hasToken() ? 'Token given' : 'Token…');

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const of = byId('of').value.trim();
  if (of) explain(of);
});

byId('range').addEventListener('change', (event) => {
  state.minutes = Number(event.target.value);
  state.points = [];
  live.hurry(loadSeries);
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

// Asks for the token at once where one is needed.
async function begin() {
  try {
    if (!hasToken() && (await get('access')).token) {
      live.lock('');
      return;
    }
  } catch {} // what is wrong shows as it goes on
  live.start();
}

showTheme();
showToken();
begin();
