// Components that several screens share.
import { useEffect, useState } from './vendor/hooks.js';
import { read } from './api.js';
import { html } from './html.js';
import { listen, now, version } from './live.js';

/// Reads that follow events wait this long, so that a burst of events costs one read.
const SETTLE_MS = 250;
/// The pause before a failed read is repeated.
const RETRY_MS = 5000;

/// Events that no screen shows: signs of life.
export const isNews = ({ kind }) => kind !== 'agent.heartbeat' && kind !== 'store.probed';

/// Reads a path now, and after every event that concerns it. A failed read keeps the former answer, says how old it is, and is
/// repeated. One read runs at a time: a burst of events delays no answer.
export function useRead(path, parameters = {}, concerns = isNews, reader = read) {
  const key = JSON.stringify([path, parameters]);
  const [state, setState] = useState({ key });
  const changes = version.value;
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let [isReading, isStale, timer] = [false, false, undefined];
    const later = (pause) => { timer ??= setTimeout(run, pause); };
    async function run() {
      timer = undefined;
      isStale = isReading;
      if (isReading) return;
      isReading = true;
      const from = Date.now();
      try {
        const answer = await reader(path, parameters, { signal: stop.signal });
        if (!stop.signal.aborted) setState({ key, answer, from, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((before) => (before.key === key ? { ...before, error } : { key, error }));
        later(RETRY_MS);
      }
      isReading = false;
      if (isStale && !stop.signal.aborted) later(SETTLE_MS);
    }
    const unlisten = listen((events) => { if (events.some(concerns)) later(SETTLE_MS); });
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
      unlisten();
    };
  }, [key, changes]);
  return state.key === key ? state : { key };
}

/// Shows what a read gave: the answer, the error, or that it is under way. An error is never an empty list. The title is the
/// heading of a page whose answer would have it.
export function Loaded({ state, title, children }) {
  const { answer, error, at } = state;
  return html`
    ${title && !answer && html`<h1>${title}</h1>`}
    ${error && html`<div class="problem" role="alert">
      <strong>${error.message}</strong>
      ${(error.hints ?? []).map((hint) => html`<div class="dim">${hint}</div>`)}
      ${answer && html`<div>Shown as it was ${age(at)} ago.</div>`}
    </div>`}
    ${answer ? children(answer) : !error && html`<p class="dim" role="status">Loading…</p>`}`;
}

/// The time since a moment, in one unit.
export function age(moment) {
  const seconds = Math.max(0, Math.round((now.value - new Date(moment)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/// A duration in one or two units.
export function duration(millis) {
  const seconds = Math.round(millis / 1000);
  if (seconds < 1) return `${Math.round(millis)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${seconds % 60 ? ` ${seconds % 60} s` : ''}`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h${seconds % 3600 >= 60 ? ` ${Math.floor((seconds % 3600) / 60)} min` : ''}`;
  return `${Math.floor(seconds / 86400)} d${seconds % 86400 >= 3600 ? ` ${Math.floor((seconds % 86400) / 3600)} h` : ''}`;
}

export const Age = ({ of }) => of && html`<time class="age" dateTime=${of} title=${of}>${age(of)}</time>`;

/// The sign of each word: people who cannot tell colours apart read the sign and the word.
const SIGNS = {
  bad: { sign: '✕', words: ['dead', 'failed', 'cancelled', 'lost', 'not removed', 'expired', 'interrupted', 'offline'] },
  wait: {
    sign: '!',
    words: ['asks', 'approve', 'conflict', 'message', 'unread', 'waiting_input', 'awaiting_merge', 'silent', 'no progress', 'blocked', 'no holder'],
  },
  run: { sign: '▸', words: ['working', 'in_progress', 'running', 'busy', 'online', 'active', 'ready'] },
  good: { sign: '✓', words: ['done', 'completed', 'closed', 'skipped', 'acted', 'delivered'] },
  idle: { sign: '·', words: [] },
};

export function Chip({ word }) {
  const [kind, { sign }] = Object.entries(SIGNS).find(([, { words }]) => words.includes(word)) ?? ['idle', SIGNS.idle];
  return html`<span class="chip ${kind}"><span aria-hidden="true">${sign}</span> ${word.replaceAll('_', ' ')}</span>`;
}

/// A row that j, k and Enter reach: its link is the target.
export const Row = ({ href, isAway, isNew, children }) => html`<a class=${`row${isAway ? ' away' : ''}${isNew ? ' new' : ''}`} href=${href} data-row>${children}</a>`;

export const Progress = ({ done, total }) => html`<span class="progress">
  <progress max=${total || 1} value=${done} aria-label="${done} of ${total} tasks done"/> ${done}/${total}</span>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export const Field = ({ name, children }) => (children || children === 0) && html`<dt>${name}</dt><dd>${children}</dd>`;
