// The waterfall: where the time of each task went, on one axis of time. The times are those that the store recorded.
import { html } from './html.js';
import { Rows } from './list.js';
import { now } from './live.js';
import { link } from './router.js';
import { duration } from './ui.js';

const KINDS = { queued: 'queued', workspace: 'making the workspace', running: 'running', waiting: 'waiting for a person' };
const WIDTH = 1000;
const MIN_WIDTH = 2;

const start = ({ from }) => Date.parse(from);
const end = ({ until }) => (until ? Date.parse(until) : now.value);

/// The sums of each kind of time, in words.
const words = (spans) => Object.keys(KINDS)
  .map((kind) => [kind, spans.filter((span) => span.kind === kind).reduce((sum, span) => sum + end(span) - start(span), 0)])
  .filter(([, sum]) => sum > 0)
  .map(([kind, sum]) => `${duration(sum)} ${KINDS[kind]}`)
  .join(', ');

const clock = (moment, isLong) => new Date(moment).toLocaleString([], isLong
  ? { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }
  : { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });

export function Waterfall({ timeline, scroller }) {
  const rows = timeline.filter(({ spans }) => spans.length > 0);
  if (rows.length === 0) return html`<p class="empty">No task has been queued yet.</p>`;
  const spans = rows.flatMap((row) => row.spans);
  const first = spans.reduce((least, span) => Math.min(least, start(span)), Infinity);
  const last = spans.reduce((most, span) => Math.max(most, end(span)), first + 1);
  const place = (moment) => ((moment - first) / (last - first)) * WIDTH;
  const isLong = last - first > 86400000;
  const bar = (span, number) => {
    const x = place(start(span));
    const width = Math.max(MIN_WIDTH, place(end(span)) - x);
    return html`<rect key=${number} class=${span.kind} x=${Math.min(x, WIDTH - MIN_WIDTH)} y="0" width=${width} height="10">
      <title>${KINDS[span.kind]} ${duration(end(span) - start(span))}${span.agent ? ` by ${span.agent}` : ''}${span.until ? '' : ', still'}</title></rect>`;
  };
  const row = ({ id, name, spans: own }) => html`<a class="fall" key=${id} href=${link('task', id)} data-row>
    <span class="name">${name}</span>
    <svg viewBox="0 0 ${WIDTH} 10" preserveAspectRatio="none" role="img" aria-label=${words(own)}>${own.map(bar)}</svg>
    <span class="age">${duration(own.reduce((sum, span) => sum + end(span) - start(span), 0))}</span></a>`;
  return html`<div class="waterfall"><ul class="legend">${Object.entries(KINDS).map(([kind, name]) => html`<li><i class=${kind}/>${name}</li>`)}
      <li class="dim sum">${words(spans)}</li></ul>
    <div class="axis" aria-hidden="true"><span>${clock(first, isLong)}</span><span>${clock((first + last) / 2, isLong)}</span>
      <span>${spans.some(({ until }) => !until) ? 'now' : clock(last, isLong)}</span></div>
    <${Rows} items=${rows} row=${row} height=${28} scroller=${scroller} kind="falls" label="Waterfall"/></div>`;
}
