// This module formats numbers and texts in the same way everywhere on the page.

export const groups = ['known', 'newcomers', 'strangers', 'robots', 'exempt'];

const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });

export const count = (n) => whole.format(n);

// Formats a number of CPUs. A CPU-second per second is one CPU.
export const cpus = (x) => x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2);

export const rate = (x) => (x >= 100 ? whole.format(x) : x.toFixed(x >= 10 ? 1 : 2));

export const percent = (x) => `${(100 * x).toFixed(0)} %`;

// Formats a duration with at most three digits.
export function seconds(s) {
  const of = Math.abs(s);
  if (of === 0) return '0';
  if (of < 0.0995) return `${(1000 * s).toFixed(1)} ms`;
  if (of < 0.9995) return `${(1000 * s).toFixed(0)} ms`;
  if (of < 9.995) return `${s.toFixed(2)} s`;
  if (of < 99.95) return `${s.toFixed(1)} s`;
  if (of < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (of < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const pad = (n) => String(n).padStart(2, '0');

// Formats a Unix time as the local time of day.
export function clock(at) {
  const d = new Date(at * 1000);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

// Makes a text that a client chose safe to show: invisible characters, and those that change
// the order of letters, become codes.
export const plain = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
