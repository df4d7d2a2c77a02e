// The admin API as the page uses it.

const tokenKey = 'tempomat-token';

let token = '';
try {
  token = sessionStorage.getItem(tokenKey) ?? '';
} catch {} // without storage the token lasts as long as the page

export const hasToken = () => token !== '';

export function setToken(text) {
  token = text;
  try {
    if (text === '') sessionStorage.removeItem(tokenKey);
    else sessionStorage.setItem(tokenKey, text);
  } catch {}
}

export class APIError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const headers = (more) => ({ Accept: 'application/json', ...more, ...(token && { Authorization: `Bearer ${token}` }) });

const options = { cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer' };

async function answer(response) {
  const text = await response.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new APIError(response.status, `the proxy answered ${response.status} without a document`);
  }
  if (!response.ok) throw new APIError(response.status, body.error ?? `the proxy answered ${response.status}`);
  return body;
}

// Asks for a document, for at most ten seconds.
export async function get(path, query = {}) {
  const search = new URLSearchParams(query).toString();
  return answer(await fetch(`v1/${path}${search && `?${search}`}`, { ...options, headers: headers(), signal: AbortSignal.timeout(10_000) }));
}

export async function post(path, body) {
  return answer(await fetch(`v1/${path}`, {
    ...options, method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body), signal: AbortSignal.timeout(10_000),
  }));
}

// Calls take with what each server-sent event holds, until the stream ends, an error comes,
// or nothing for ten seconds. EventSource cannot send the token, so that fetch reads it.
export async function events(signal, take) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), 10_000);
  try {
    const response = await fetch('v1/events', {
      ...options, headers: headers({ Accept: 'text/event-stream' }), signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!response.ok) await answer(response);
    let rest = '';
    for await (const piece of pieces(response.body.pipeThrough(new TextDecoderStream()))) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), 10_000);
      const parts = (rest + piece).split(/\r?\n\r?\n/);
      rest = parts.pop();
      if (rest.length > 65_536) throw new Error('an event without an end');
      for (const part of parts) {
        const data = part.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n');
        if (data) take(JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

async function* pieces(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
