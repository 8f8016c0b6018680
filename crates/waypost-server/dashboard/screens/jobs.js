// Jobs: the list, and one job with its output as it is written.
import { useEffect, useMemo, useRef, useState } from '../vendor/hooks.js';
import { open } from '../api.js';
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { List, Rows, useList } from '../list.js';
import { nextFrame, parse } from '../live.js';
import { link, refine } from '../router.js';
import { scope } from '../scope.js';
import { Age, Chip, Field, Loaded, Row, duration, useRead } from '../ui.js';

const MAX_LINES = 50000;
const LINE_HEIGHT = 19;
const MAX_RETRY_MS = 10000;

export const Jobs = ({ subject, query }) => (subject
  ? html`<${Job} id=${subject} query=${query}/>`
  : html`<${All}/>`);

export const jobRow = (job) => html`<${Row} key=${job.id} href=${link('jobs', job.id)}><${Chip} word=${job.status}/>
  <span class="name">${job.task ?? job.id}</span><span class="reason"><code>${job.command.join(' ')}</code></span>
  <span class="dim">${job.agent}</span><${Age} of=${job.updated_at}/><//>`;

export const useJobs = (parameters) => useList('jobs', parameters, { kinds: ['job.'], one: (id) => `jobs/${id}` });

function All() {
  const { repo, worktree } = scope.value;
  const list = useJobs({ worktree_id: worktree, repository: repo });
  return html`<h1>Jobs</h1><${List} list=${list} none=${html`No job ran yet. Start one: <code>way job start -- COMMAND</code>`} row=${jobRow}/>`;
}

const isOfJob = (id) => ({ subject, kind }) => subject === id || kind.startsWith('workspace.');

function Job({ id, query }) {
  const state = useRead(`jobs/${encodeURIComponent(id)}`, {}, isOfJob(id));
  return html`<p class="crumbs"><a href=${link('jobs')}>Jobs</a></p><${Loaded} state=${state} title=${id}>${({ data }) => html`
    <h1>${data.task ?? data.id} <${Chip} word=${data.status}/></h1>
    ${data.error && html`<div class="note bad"><p class="text">${data.error}</p></div>`}
    <dl><${Field} name="Command"><code>${data.command.join(' ')}</code><//>
      <${Field} name="Exit code">${data.exit_code}<//><${Field} name="Agent">${data.agent}<//>
      <${Field} name="Machine">${data.machine}<//><${Field} name="Directory"><code>${data.workspace_dir}</code><//>
      <${Field} name="Took">${data.started_at && data.finished_at && duration(Date.parse(data.finished_at) - Date.parse(data.started_at))}<//>
      <${Field} name="Outcome">${data.output}<//>
      <${Field} name="Task">${data.task_id && html`<a href=${link('task', data.task_id)}>${data.task ?? data.task_id}</a>`}<//></dl>
    <p class="actions"><${Actions} on="job" of=${data}/></p>
    <h2>Log</h2><${Log} id=${data.id} find=${query.find} setFind=${(find) => refine({ find }, true)}/>`}<//>`;
}

/// Removes the codes with which programs colour their output.
const plain = (text) => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '').replace(/\r(?!\n)/g, '\n').replace(/\r/g, '');

/// Follows the output of a job. `lines` are the newest ones; `left` is how many are before them.
function useLog(id) {
  const [log, setLog] = useState({ lines: [''], left: 0, state: 'connecting' });
  useEffect(() => {
    const stop = new AbortController();
    let [at, pause, pending, text] = [0, 500, false, ''];
    const flush = () => {
      pending = false;
      const added = plain(text).split('\n');
      text = '';
      setLog((before) => {
        const lines = [...before.lines.slice(0, -1), before.lines.at(-1) + added[0], ...added.slice(1)];
        const over = Math.max(0, lines.length - MAX_LINES);
        return { ...before, lines: over ? lines.slice(over) : lines, left: before.left + over };
      });
    };
    const add = (more) => {
      text += more;
      if (!pending) nextFrame(flush);
      pending = true;
    };
    const set = (change) => { if (!stop.signal.aborted) setLog((before) => ({ ...before, ...change })); };
    (async () => {
      while (!stop.signal.aborted) {
        try {
          const response = await open(`/api/v1/jobs/${encodeURIComponent(id)}/log/stream?from=${at}`, { signal: stop.signal });
          set({ state: 'live', error: undefined });
          for await (const event of parse(response)) {
            const data = JSON.parse(event.data);
            if (event.id) at = Number(event.id);
            if (event.name === 'resync') add(`\n[${data.missed} bytes are not kept any more]\n`);
            if (event.name === 'log') add(data.text);
            if (event.name === 'end') { set({ state: 'end' }); return; }
            pause = 500;
          }
        } catch (error) {
          set({ state: 'lost', error: error.status ? error : undefined });
          if (error.status && error.status < 500) return;
        }
        await new Promise((resolve) => { setTimeout(resolve, pause); });
        pause = Math.min(pause * 2, MAX_RETRY_MS);
      }
    })();
    return () => stop.abort();
  }, [id]);
  return log;
}

/// A line with the words that were searched marked.
function Marked({ text, find }) {
  if (!find) return text;
  const parts = [];
  const [low, word] = [text.toLowerCase(), find.toLowerCase()];
  let from = 0;
  for (let at = low.indexOf(word); at >= 0; at = low.indexOf(word, from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + word.length)}</mark>`);
    from = at + word.length;
  }
  return [...parts, text.slice(from)];
}

const STATES = { connecting: 'Loading…', live: 'Live', lost: 'The connection is lost. Reconnecting…', end: 'The job has ended' };

/// The output of a job, as it is written. Enter goes to the next line with the searched text.
export function Log({ id, find = '', setFind }) {
  const { lines: all, left, state, error } = useLog(id);
  const lines = useMemo(() => (all.at(-1) === '' ? all.slice(0, -1) : all), [all]);
  const box = useRef({ current: null }).current;
  const [isReady, setReady] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const [chosen, setChosen] = useState(-1);
  const matches = useMemo(() => {
    const word = find.toLowerCase();
    return word ? lines.flatMap((line, number) => (line.toLowerCase().includes(word) ? [number] : [])) : [];
  }, [lines, find]);
  useEffect(() => { if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines, isFollowing, isReady]);
  const show = (number) => {
    const at = (number + matches.length) % matches.length;
    setFollowing(false);
    setChosen(at);
    box.current.scrollTop = matches[at] * LINE_HEIGHT - box.current.clientHeight / 2;
  };
  const search = (event) => {
    event.preventDefault();
    if (matches.length) show(chosen + 1);
  };
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    setFollowing(scrollTop + clientHeight >= scrollHeight - LINE_HEIGHT);
  };
  const hold = (element) => {
    box.current = element;
    if (element && !isReady) setReady(true);
  };
  const type = ({ target: { value } }) => {
    setChosen(-1);
    setFind(value);
  };
  return html`<div class="log-tools"><form role="search" onSubmit=${search}>
      <input type="search" aria-label="Search the log" placeholder="Search the log" value=${find} data-filter onInput=${type}/>
      <span class="dim" role="status">${find && (matches.length ? `${chosen >= 0 ? `${chosen + 1} of ` : ''}${matches.length} lines` : 'no line')}</span></form>
    <span class="dim">${STATES[state]}${lines.length > 0 && `, ${left + lines.length} lines`}</span>
    ${!isFollowing && html`<button type="button" onClick=${() => setFollowing(true)}>To the end</button>`}</div>
    ${error && html`<div class="problem" role="alert"><strong>${error.message}</strong></div>`}
    ${left > 0 && html`<p class="more">The first ${left} lines are left out. <code>way job log ${id}</code> prints all.</p>`}
    <div class="log" ref=${hold} tabindex="0" role="log" aria-label="Output of the job" onScroll=${scrolled}>
      ${lines.length === 0 && state === 'end' && html`<p class="empty">The job has printed nothing.</p>`}
      ${isReady && html`<${Rows} items=${lines} height=${LINE_HEIGHT} scroller=${box} kind="lines" row=${(line, number) => html`
        <div key=${number} class=${`line${matches[chosen] === number ? ' chosen' : ''}`}><${Marked} text=${line} find=${find}/></div>`}/>`}</div>`;
}
