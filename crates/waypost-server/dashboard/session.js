// The session of this browser: a secret that the server gave for a login.
//
// There is no cookie: a browser sends cookies to every port of this machine, whichever program listens there. The secret is
// kept in this tab, and passed on to the other tabs of this page. It is of no use to another server.
import { signal } from './vendor/signals.js';

const KEY = 'waypost-session';
/// How long another tab may take to pass its session on.
const ANSWER_MS = 300;

/// Whether the page asks for a login.
export const needsLogin = signal(false);
/// Why the last login failed.
export const problem = signal('');
/// The secret, or null.
export const secret = () => sessionStorage.getItem(KEY);

/// Only pages with the same host and port get these messages.
const tabs = new BroadcastChannel(KEY);
/// Secrets that the server refused. Another tab may not know it yet.
const refused = new Set();
/// Whether the user logged out here: then the page waits for a login here.
let hasLeft = false;
let found = () => {};

function keep(session) {
  sessionStorage.setItem(KEY, session);
  problem.value = '';
  hasLeft = false;
  needsLogin.value = false;
  found();
}

tabs.onmessage = ({ data }) => {
  if (data.asks && secret() && !needsLogin.value) tabs.postMessage({ session: secret() });
  else if (data.session && !secret() && !hasLeft && !refused.has(data.session)) keep(data.session);
};

/// Forgets a secret that the server refused. Another tab may have logged in since.
export function forget(session) {
  if (session) refused.add(session);
  if (session !== secret()) return;
  sessionStorage.removeItem(KEY);
  problem.value = '';
  needsLogin.value = true;
  tabs.postMessage({ asks: true });
}

/// Exchanges a code or a token for a session. Returns whether the server accepted it.
export async function login({ code, token }) {
  const headers = { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const body = JSON.stringify(code ? { code } : {});
  const response = await fetch('/login', { method: 'POST', headers, body }).catch(() => undefined);
  if (!response?.ok) {
    if (!response) problem.value = 'The server does not answer.';
    else problem.value = code ? 'This login link was used already, or is too old.' : 'The server does not accept this token.';
    return false;
  }
  keep((await response.json()).data.session);
  tabs.postMessage({ session: secret() });
  return true;
}

export async function logout() {
  const session = secret();
  sessionStorage.removeItem(KEY);
  problem.value = '';
  hasLeft = true;
  needsLogin.value = true;
  await fetch('/logout', { method: 'POST', headers: { Authorization: `Bearer ${session}` } }).catch(() => {});
}

/// Finds the session: by the code in the address, in this tab, or in another one.
async function begin() {
  const code = location.hash.match(/^#login=(.*)$/)?.[1];
  if (code) {
    // Neither the history nor a bookmark keeps the code.
    history.replaceState(null, '', '#/now');
    if (await login({ code })) return;
  }
  if (!secret()) {
    const answered = new Promise((resolve) => { found = resolve; });
    tabs.postMessage({ asks: true });
    await Promise.race([answered, new Promise((resolve) => { setTimeout(resolve, ANSWER_MS); })]);
  }
  needsLogin.value = !secret();
}

/// Resolves when the session was looked for.
export let ready = begin();
// A login link that is opened in this tab loads no other page.
addEventListener('hashchange', () => { if (location.hash.startsWith('#login=')) ready = begin(); });
