// Components that several screens share.
import { useEffect, useState } from './vendor/hooks.js';
import { read } from './api.js';
import { html } from './html.js';
import { now, version } from './live.js';

/// Reads a path now and after every change. A failed read keeps the former answer and says how old it is.
export function useRead(path, parameters = {}) {
  const key = JSON.stringify([path, parameters]);
  const [state, setState] = useState({ key });
  const changes = version.value;
  useEffect(() => {
    const stop = new AbortController();
    read(path, parameters, { signal: stop.signal }).then(
      (answer) => setState({ key, answer, at: Date.now() }),
      (error) => {
        if (stop.signal.aborted) return;
        setState((before) => (before.key === key ? { ...before, error } : { key, error }));
      },
    );
    return () => stop.abort();
  }, [key, changes]);
  return state.key === key ? state : { key };
}

/// Shows what a read gave: the answer, the error, or that it is under way. An error is never an empty list.
export function Loaded({ state, children }) {
  const { answer, error, at } = state;
  return html`
    ${error && html`<div class="problem" role="alert">
      <strong>${error.message}</strong>
      ${(error.hints ?? []).map((hint) => html`<div class="dim">${hint}</div>`)}
      ${answer && html`<div>Shown as it was ${age(at)} ago.</div>`}
    </div>`}
    ${answer ? children(answer) : !error && html`<p class="dim" role="status">Loading…</p>`}`;
}

/// A list of which further pages can be loaded: nothing is cut silently.
export function usePages(path, parameters) {
  const [limit, setLimit] = useState(100);
  const state = useRead(path, { ...parameters, limit });
  const more = () => setLimit((before) => Math.min(before * 3, 1000));
  return { state, more, isFull: limit >= 1000 };
}

export function More({ pages, answer }) {
  if (!answer.next) return null;
  const shown = answer.data.length;
  return html`<p class="more">${pages.isFull
    ? html`The first ${shown} are shown; there are more. Narrow the filter.`
    : html`The first ${shown} are shown. <button onClick=${pages.more}>Show more</button>`}</p>`;
}

/// The time since a moment, in one unit.
export function age(moment) {
  const seconds = Math.max(0, Math.round((now.value - new Date(moment)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const Age = ({ of }) => of && html`<time class="age" dateTime=${of} title=${of}>${age(of)}</time>`;

/// The sign of each word: people who cannot tell colours apart read the sign and the word.
const SIGNS = {
  bad: { sign: '✕', words: ['dead', 'failed', 'cancelled', 'lost', 'not removed', 'expired', 'interrupted', 'offline'] },
  wait: {
    sign: '!',
    words: ['asks', 'approve', 'conflict', 'message', 'waiting_input', 'awaiting_merge', 'silent', 'no progress', 'blocked', 'no holder'],
  },
  run: { sign: '▸', words: ['working', 'in_progress', 'running', 'busy', 'online', 'active'] },
  good: { sign: '✓', words: ['done', 'completed', 'closed', 'skipped'] },
  idle: { sign: '·', words: [] },
};

export function Chip({ word }) {
  const [kind, { sign }] = Object.entries(SIGNS).find(([, { words }]) => words.includes(word)) ?? ['idle', SIGNS.idle];
  return html`<span class="chip ${kind}"><span aria-hidden="true">${sign}</span> ${word.replaceAll('_', ' ')}</span>`;
}

/// A row that j, k and Enter reach: its link is the target.
export const Row = ({ href, children }) => html`<a class="row" href=${href} data-row>${children}</a>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export const Field = ({ name, children }) => (children || children === 0) && html`<dt>${name}</dt><dd>${children}</dd>`;
