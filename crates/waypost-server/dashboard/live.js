// The stream of events: it brings every change to the screens, and tells the page how old its data is.
import { batch, signal } from './vendor/signals.js';
import { open, readRole } from './api.js';
import { needsLogin } from './session.js';

const MAX_RETRY_MS = 15000;
/// The server sends a sign of life every few seconds. After this time without one, the connection is dead.
const MAX_SILENCE_MS = 20000;
/// A page that is hidden for this long releases its connection. After each rest it looks for events for a moment.
const MAX_HIDDEN_MS = 5000;
const REST_MS = 10000;
const LOOK_MS = 1000;
/// A frame comes at the latest after this time: hidden tabs have no frames, but their titles count on.
const MAX_FRAME_MS = 200;

/// Counts up when all data must be read again: after an action, and after a gap in the events.
export const version = signal(0);
/// `live`, `connecting`, or `lost` with the time since when.
export const connection = signal({ state: 'connecting', since: Date.now() });
/// The current time, for ages. It moves every few seconds.
export const now = signal(Date.now());

/// How long events are remembered, for answers that were under way when they came.
const RECENT_MS = 30000;

const listeners = new Set();
let recent = [];
let queue = [];
let last;

/// Calls a function once, at the next frame.
export function nextFrame(call) {
  let isDone = false;
  const once = () => {
    if (!isDone) call();
    isDone = true;
  };
  if (!document.hidden) requestAnimationFrame(once);
  setTimeout(once, MAX_FRAME_MS);
}

/// Calls a function with the events of each frame in which there are some. Returns a function that ends it.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/// Returns the events that came since a moment, of the last seconds.
export const eventsSince = (moment) => recent.filter(({ at }) => at >= moment).map(({ event }) => event);

function deliver() {
  const events = queue;
  const at = Date.now();
  recent = [...recent.filter((one) => at - one.at < RECENT_MS), ...events.map((event) => ({ at, event }))];
  queue = [];
  batch(() => listeners.forEach((listener) => listener(events)));
}

/// Says since when the data is old. The clock moves with it: an age must not lag behind.
function lose(since) {
  batch(() => {
    now.value = Date.now();
    connection.value = { state: 'lost', since };
  });
}

function handle({ id, name, data }) {
  if (id) last = id;
  if (name === 'unavailable') lose(Date.now());
  else if (name === 'available') connection.value = { state: 'live' };
  else if (name === 'resync') version.value += 1;
  else {
    if (queue.length === 0) nextFrame(deliver);
    queue.push(JSON.parse(data));
  }
}

/// Reads server-sent events from a response. EventSource cannot send a token.
export async function* parse(response, heard = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      const at = line.indexOf(':');
      if (line === '') {
        if (event.name || event.data) yield event;
        event = {};
      } else if (at > 0) {
        const field = line.slice(0, at);
        const text = line.slice(at + 1).replace(/^ /, '');
        event[field === 'event' ? 'name' : field] = text;
      }
    }
  }
}

/// Resolves after a time, or earlier when the page is shown.
const pauseWhileHidden = (time) => new Promise((resolve) => {
  const end = () => {
    document.removeEventListener('visibilitychange', end);
    clearTimeout(timer);
    resolve();
  };
  const timer = setTimeout(end, time);
  document.addEventListener('visibilitychange', end);
});

/// Follows the events until the page is closed, and reconnects without a gap.
///
/// A browser has six connections to a server for all its tabs. So a hidden page only looks for events now and then, and one
/// that the browser keeps for the Back button has no connection.
export async function follow() {
  setInterval(() => { now.value = Date.now(); }, 5000);
  let pause = 500;
  let hasRested = false;
  for (;;) {
    if (needsLogin.value) {
      await new Promise((resolve) => {
        const stop = needsLogin.subscribe((wanted) => { if (!wanted) setTimeout(() => { stop(); resolve(); }); });
      });
    }
    const stop = new AbortController();
    const unsubscribe = needsLogin.subscribe((wanted) => { if (wanted) stop.abort(); });
    let heardAt = Date.now();
    const openedAt = Date.now();
    let shownAt = hasRested ? 0 : openedAt;
    let rests = false;
    const rest = () => { rests = true; stop.abort(); };
    const check = () => {
      if (!document.hidden) shownAt = Date.now();
      if (Date.now() - heardAt > MAX_SILENCE_MS) stop.abort();
      else if (Date.now() - shownAt > MAX_HIDDEN_MS && Date.now() - openedAt > LOOK_MS) rest();
    };
    const watch = setInterval(check, 1000);
    window.addEventListener('pagehide', rest);
    try {
      const headers = last ? { 'Last-Event-ID': last } : {};
      const response = await open('/api/v1/events/stream', { headers, signal: stop.signal });
      connection.value = { state: 'live' };
      pause = 500;
      // Something may have changed between the first reads and the connection. After a rest, the server sends what was missed.
      if (!hasRested || !last) {
        readRole();
        version.value += 1;
      }
      // The timers of a page that is hidden for long hardly run, but signs of life arrive.
      const heard = () => { check(); heardAt = Date.now(); };
      for await (const event of parse(response, heard)) handle(event);
    } catch {
      // The reason does not matter: the state says that the data is old, and the next attempt tells more.
    }
    clearInterval(watch);
    window.removeEventListener('pagehide', rest);
    unsubscribe();
    // After a logout the next user starts anew.
    if (needsLogin.value) continue;
    hasRested = rests && connection.value.state === 'live';
    if (hasRested) {
      await pauseWhileHidden(REST_MS);
      continue;
    }
    if (connection.value.state !== 'lost') lose(heardAt);
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    pause = Math.min(pause * 2, MAX_RETRY_MS);
  }
}
