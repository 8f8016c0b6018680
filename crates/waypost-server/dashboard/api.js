// The client of the public HTTP API. The page has no other source of data.
import { forget, needsLogin, ready, secret } from './session.js';
import { signal } from './vendor/signals.js';

/// An error in the server's words.
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.hints = problem.hints || [];
  }
}

export async function open(path, options = {}) {
  await ready;
  const session = secret();
  if (!session) throw new ApiError(401, { detail: 'log in first' });
  const response = await fetch(path, { ...options, headers: { Authorization: `Bearer ${session}`, ...options.headers } });
  if (response.status === 401) forget(session);
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response;
}

/// Reads a path of the API: the answer with `data`, and `next` if there are more pages.
export async function read(path, parameters = {}, options = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(given).toString();
  const response = await open(`/api/v1/${path}${query && `?${query}`}`, options);
  return response.json();
}

/// Reads with a request that has a body.
export async function ask(path, body, options = {}) {
  const headers = { 'Content-Type': 'application/json' };
  return (await open(`/api/v1/${path}`, { ...options, method: 'POST', headers, body: JSON.stringify(body) })).json();
}

/// Runs an operation that changes something. DELETE takes its arguments in the address.
export async function write(path, body, method = 'POST') {
  const key = { 'Idempotency-Key': crypto.randomUUID() };
  if (method === 'DELETE') {
    const query = new URLSearchParams(body).toString();
    return (await open(`/api/v1/${path}${query && `?${query}`}`, { method, headers: key })).json();
  }
  const headers = { 'Content-Type': 'application/json', ...key };
  return (await open(`/api/v1/${path}`, { method, headers, body: JSON.stringify(body) })).json();
}

/// Whether the user may change things: people can, with their own token or a session.
export const isAdmin = signal(false);
needsLogin.subscribe((isNeeded) => { if (isNeeded) isAdmin.value = false; });

export async function readRole() {
  const answer = await open('/whoami').then((response) => response.json()).catch(() => undefined);
  // Without an answer the role is as before: a connection that is lost for a moment takes no form away.
  if (answer) isAdmin.value = answer.data.role === 'admin';
}
