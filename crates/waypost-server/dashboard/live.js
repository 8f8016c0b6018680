// The stream of events: it tells every screen when to read again, and the page how old its data is.
import { signal } from './vendor/signals.js';
import { needsLogin, open, readRole } from './api.js';

/// Reads that follow events wait this long, so that a burst of events costs one read.
const SETTLE_MS = 250;
const MAX_RETRY_MS = 15000;

/// Counts up when something has changed. Screens read again when it does.
export const version = signal(0);
/// `live`, `connecting`, or `lost` with the time since when.
export const connection = signal({ state: 'connecting', since: Date.now() });
/// The current time, for ages. It moves every few seconds.
export const now = signal(Date.now());

let last;
let timer;

function changed() {
  timer ??= setTimeout(() => {
    timer = undefined;
    version.value += 1;
  }, SETTLE_MS);
}

function handle(event) {
  if (event.id) last = event.id;
  if (event.name === 'unavailable') connection.value = { state: 'lost', since: Date.now() };
  else if (event.name === 'available') connection.value = { state: 'live' };
  else changed();
}

/// Reads server-sent events from a response. EventSource cannot send a token.
async function* parse(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
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

/// Follows the events until the page is closed, and reconnects without a gap.
export async function follow() {
  setInterval(() => { now.value = Date.now(); }, 5000);
  let pause = 500;
  for (;;) {
    if (needsLogin.value) {
      await new Promise((resolve) => {
        const stop = needsLogin.subscribe((wanted) => { if (!wanted) setTimeout(() => { stop(); resolve(); }); });
      });
    }
    const stop = new AbortController();
    const unsubscribe = needsLogin.subscribe((wanted) => { if (wanted) stop.abort(); });
    try {
      const headers = last ? { 'Last-Event-ID': last } : {};
      const response = await open('/api/v1/events/stream', { headers, signal: stop.signal });
      connection.value = { state: 'live' };
      pause = 500;
      readRole();
      // Events may have been missed before the first connection.
      changed();
      for await (const event of parse(response)) handle(event);
    } catch {
      // The reason does not matter: the state says that the data is old, and the next attempt tells more.
    }
    unsubscribe();
    // After a logout the next user starts anew.
    if (needsLogin.value) continue;
    if (connection.value.state !== 'lost') connection.value = { state: 'lost', since: Date.now() };
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    pause = Math.min(pause * 2, MAX_RETRY_MS);
  }
}
