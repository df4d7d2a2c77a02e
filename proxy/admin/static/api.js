// This module calls the admin API for the page.

const tokenKey = 'tempomat-token';

let token = '';
try {
  token = sessionStorage.getItem(tokenKey) ?? '';
} catch {} // without storage, the token is kept only as long as the page is open

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

// Status 0 means that no server answered.
async function ask(path, more) {
  let response;
  try {
    response = await fetch(path, { ...options, ...more, signal: AbortSignal.timeout(10_000) });
  } catch (error) {
    throw new APIError(0, `the proxy doesn't answer: ${error.message}`);
  }
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

// Requests a document, and waits for it for at most ten seconds.
export async function get(path, query = {}) {
  const search = new URLSearchParams(query).toString();
  return ask(`v1/${path}${search && `?${search}`}`, { headers: headers() });
}

export async function post(path, body) {
  return ask(`v1/${path}`, { method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body) });
}
