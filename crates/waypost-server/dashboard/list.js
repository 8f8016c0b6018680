// Long lists: pages are loaded as the user scrolls, only the rows in view are in the document, and events change single rows.
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/hooks.js';
import { signal } from './vendor/signals.js';
import { read } from './api.js';
import { html } from './html.js';
import { listen, nextFrame, version } from './live.js';
import { Loaded } from './ui.js';

const PAGE = 200;
/// Shorter lists are in the document as a whole.
const MIN_VIRTUAL = 120;
/// Rows above and below those in view, for the keyboard and for fast scrolling.
const SPARE = 20;
/// More changed records than these are read as a list.
const MAX_SINGLE = 20;
/// The pause before a failed read is repeated.
const RETRY_MS = 5000;

const isNarrow = matchMedia('(max-width: 720px)');
/// The height of a row: the same as in the style sheet.
const rowHeight = signal(isNarrow.matches ? 58 : 34);
isNarrow.addEventListener('change', () => { rowHeight.value = isNarrow.matches ? 58 : 34; });

/// Returns the rows that are in view: the first, and the one after the last.
function inView(box, scroller, count, height) {
  const view = scroller ? [0, scroller.clientHeight] : [0, innerHeight];
  const top = scroller ? -scroller.scrollTop : box.getBoundingClientRect().top;
  const from = Math.max(0, Math.floor((view[0] - top) / height) - SPARE);
  return [Math.min(from, count), Math.min(count, Math.ceil((view[1] - top) / height) + SPARE)];
}

/// Rows of equal height. `scroller` is the element that scrolls them; the page does if there is none.
export function Rows({ items, row, height = rowHeight.value, scroller, onEnd, label, kind = 'rows' }) {
  const box = useRef();
  const [range, setRange] = useState([0, MIN_VIRTUAL]);
  const isVirtual = items.length > MIN_VIRTUAL;
  useLayoutEffect(() => {
    let isAsked = false;
    const look = () => {
      isAsked = false;
      if (!box.current) return;
      const next = inView(box.current, scroller?.current, items.length, height);
      setRange((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
      if (next[1] >= items.length - SPARE) onEnd?.();
    };
    const ask = () => {
      if (!isAsked) nextFrame(look);
      isAsked = true;
    };
    const target = scroller?.current ?? window;
    target.addEventListener('scroll', ask, { passive: true });
    addEventListener('resize', ask);
    look();
    return () => {
      target.removeEventListener('scroll', ask);
      removeEventListener('resize', ask);
    };
  }, [items.length, height, onEnd]);
  const [from, to] = isVirtual ? [Math.min(range[0], items.length), Math.min(range[1], items.length)] : [0, items.length];
  return html`<div class=${kind} ref=${box} aria-label=${label} role=${label && 'group'} data-count=${items.length}>
    ${isVirtual && html`<div aria-hidden="true" style=${{ height: `${from * height}px` }}/>`}
    ${items.slice(from, to).map((item, at) => row(item, from + at))}
    ${isVirtual && html`<div aria-hidden="true" style=${{ height: `${(items.length - to) * height}px` }}/>`}</div>`;
}

const keyOf = (row) => row.id ?? row.issue?.id ?? row.sequence;

/// Puts the rows of a first page before the others. Those that the page should have, but has not, are gone.
function merged(before, page) {
  const fresh = new Set(page.map(keyOf));
  const end = before.findLastIndex((row) => fresh.has(keyOf(row))) + 1;
  return [...page, ...before.slice(end).filter((row) => !fresh.has(keyOf(row)))];
}

/// A list that follows the events. `kinds`: which events are about its rows. `one`: the path of a single row; without it the first
/// page is read again. `add`: makes a row of an event, without any read.
export function useList(path, parameters = {}, { kinds = [], one, add } = {}) {
  const key = JSON.stringify([path, parameters]);
  const [state, setState] = useState({ key, rows: [] });
  const current = useRef({});
  const changes = version.value;
  useEffect(() => {
    const stop = new AbortController();
    const { signal: aborted } = stop;
    let [isReading, isStale, timer] = [false, false, undefined];
    const set = (change) => { if (!aborted.aborted) setState((before) => change(before.key === key ? before : { key, rows: [] })); };
    const fail = (error) => {
      set((before) => ({ ...before, error }));
      timer ??= setTimeout(() => { timer = undefined; refresh(); }, RETRY_MS);
    };
    async function refresh() {
      isStale = isReading;
      if (isReading) return;
      isReading = true;
      try {
        const { data, next } = await read(path, { ...parameters, limit: PAGE }, { signal: aborted });
        set(({ rows, next: later }) => {
          // Events may be newer than the answer.
          const newer = add ? rows.filter(({ sequence }) => sequence > (data[0]?.sequence ?? 0)) : [];
          const all = [...newer, ...(next ? merged(rows, data) : data)];
          return { key, rows: all, next: all.length > data.length + newer.length ? later : next, isLoaded: true, at: Date.now() };
        });
      } catch (error) {
        if (!aborted.aborted) fail(error);
      }
      isReading = false;
      if (isStale) later();
    }
    const later = () => { timer ??= setTimeout(() => { timer = undefined; refresh(); }, 250); };
    async function update(ids) {
      const found = await Promise.all(ids.map((id) => read(one(id), {}, { signal: aborted }).then(
        ({ data }) => data,
        (error) => ({ id, isGone: error.status === 404, error }),
      )));
      if (found.some(({ error, isGone }) => error && !isGone)) return later();
      return set((before) => ({
        ...before,
        at: Date.now(),
        rows: before.rows.flatMap((row) => {
          const changed = found.find(({ id }) => id === row.id);
          return changed ? (changed.isGone ? [] : [changed]) : [row];
        }),
      }));
    }
    const unlisten = listen((events) => {
      const news = events.filter(({ kind }) => kinds.some((prefix) => kind.startsWith(prefix)));
      if (news.length === 0) return;
      if (add) {
        set((before) => ({ ...before, at: Date.now(), rows: merged(before.rows, news.map(add).reverse()) }));
        return;
      }
      // An answer that is under way may be older than these events.
      isStale = isReading;
      const known = new Set(current.current.rows?.map(keyOf));
      const ids = [...new Set(news.map(({ subject }) => subject))];
      if (one && ids.length <= MAX_SINGLE && ids.every((id) => known.has(id))) update(ids);
      else later();
    });
    refresh();
    return () => {
      stop.abort();
      clearTimeout(timer);
      unlisten();
    };
  }, [key, changes]);
  const shown = state.key === key ? state : { key, rows: [] };
  current.current = shown;
  const isMore = useRef(false);
  const more = async () => {
    const { next } = current.current;
    if (!next || isMore.current) return;
    isMore.current = true;
    const change = (next) => setState((before) => (before.key === key ? next(before) : before));
    await read(path, { ...parameters, limit: PAGE, after: next }).then(
      (page) => change(({ rows, ...before }) => {
        const known = new Set(rows.map(keyOf));
        return { ...before, error: undefined, next: page.next, rows: [...rows, ...page.data.filter((row) => !known.has(keyOf(row)))] };
      }),
      (error) => change((before) => ({ ...before, error })),
    );
    isMore.current = false;
  };
  return { ...shown, answer: shown.isLoaded ? shown : undefined, more };
}

/// A list on the page: its rows, what is not loaded yet, and the failure of a read. `keep` filters the loaded rows, and `arrange`
/// puts them in another order.
export function List({ list, row, none, keep, arrange = (rows) => rows, label }) {
  return html`<${Loaded} state=${list}>${({ rows, next }) => {
    const shown = arrange(keep ? rows.filter(keep) : rows);
    return html`${shown.length === 0 && !next ? html`<p class="empty">${none}</p>`
      : html`<${Rows} items=${shown} row=${row} onEnd=${list.error ? undefined : list.more} label=${label}/>`}
      ${next && html`<p class="more" role="status">${shown.length} are shown; more are loaded as you scroll.${' '}
        <button type="button" onClick=${list.more}>Load more</button></p>`}`;
  }}<//>`;
}
