// The command palette: one field that leads to every screen, workflow, task, issue, agent and job.
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/hooks.js';
import { signal } from './vendor/signals.js';
import { read } from './api.js';
import { html } from './html.js';
import { link } from './router.js';

/// Whether it is open.
export const isOpen = signal(false);

const MAX_SHOWN = 12;
const SEARCH_PAUSE_MS = 120;

/// The records that can be found by name, without those that a search of the server finds.
const SOURCES = [
  ['workflows', 'Workflow', (one) => [one.name, link('workflows', one.id), one.status]],
  ['tasks', 'Task', (one) => [`${one.workflow}/${one.name}`, link('task', one.id), one.status]],
  ['agents', 'Agent', (one) => [one.name, link('agents', one.name), one.status]],
  ['jobs', 'Job', (one) => [one.task ? `${one.task} ${one.id}` : one.id, link('jobs', one.id), one.status]],
];

/// How well words fit a name: all must be in it, at the beginning is best. Nothing if they do not.
function score(name, words) {
  const text = name.toLowerCase();
  const places = words.map((word) => text.indexOf(word));
  return places.some((place) => place < 0) ? undefined : places.reduce((sum, place) => sum + place, name.length / 100);
}

export function Palette({ screens }) {
  const dialog = useRef();
  const [text, setText] = useState('');
  const [records, setRecords] = useState([]);
  const [issues, setIssues] = useState([]);
  const [at, setAt] = useState(0);
  useLayoutEffect(() => {
    if (!isOpen.value) return;
    dialog.current?.showModal();
    setText('');
    setAt(0);
    for (const [path, kind, show] of SOURCES) {
      read(path, { limit: 1000 }).then(({ data }) => {
        const found = data.map(show).map(([name, href, status]) => ({ kind, name, href, status }));
        setRecords((before) => [...before.filter((one) => one.kind !== kind), ...found]);
      }, () => {});
    }
  }, [isOpen.value]);
  useEffect(() => {
    if (text.trim().length < 2) {
      setIssues([]);
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => read('issues/search', { text, limit: MAX_SHOWN }, { signal: stop.signal }).then(({ data }) => {
      setIssues(data.map(({ id, title, status }) => ({ kind: 'Issue', name: `${id} ${title}`, href: link('issues', id), status })));
    }, () => {}), SEARCH_PAUSE_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [text]);
  if (!isOpen.value) return null;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const places = screens.map(([address, name, key]) => ({ kind: 'Screen', name, href: link(address), status: `g ${key}` }));
  const all = words.length === 0 ? places : [...places, ...records]
    .map((one) => ({ ...one, score: score(one.name, words) }))
    .filter((one) => one.score !== undefined)
    .sort((one, other) => one.score - other.score)
    .slice(0, MAX_SHOWN).concat(issues);
  const chosen = Math.min(at, all.length - 1);
  const close = () => dialog.current?.close();
  const open = (one) => {
    close();
    if (one) location.hash = one.href;
  };
  const press = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) setAt((chosen + by + all.length) % Math.max(all.length, 1));
    else if (event.key === 'Enter') open(all[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<dialog class="palette" ref=${dialog} aria-label="Go to" onClose=${() => { isOpen.value = false; }}
      onClick=${(event) => { if (event.target === dialog.current) close(); }}>
    <input type="text" role="combobox" aria-label="Go to" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list"
      aria-activedescendant=${all.length ? `palette-${chosen}` : undefined} autocomplete="off" spellcheck=${false}
      placeholder="Go to a screen, workflow, task, issue, agent or job" value=${text} onKeyDown=${press}
      onInput=${(event) => { setText(event.target.value); setAt(0); }}/>
    <ul id="palette-list" role="listbox" aria-label="Results">${all.map((one, number) => html`
      <li key=${one.href} id="palette-${number}" role="option" aria-selected=${number === chosen} onClick=${() => open(one)}
        onMouseMove=${() => setAt(number)}><span class="dim kind">${one.kind}</span><span class="name">${one.name}</span>
        <span class="dim">${one.status?.replaceAll('_', ' ')}</span></li>`)}</ul>
    ${all.length === 0 && html`<p class="empty">Nothing has this name.</p>`}</dialog>`;
}
