// One workflow: its graph with a spotlight, its tasks beside it, and where their time went.
import { useEffect, useMemo, useState } from '../vendor/hooks.js';
import { read as readPath } from '../api.js';
import { Actions } from '../dialogs.js';
import { Graph, related } from '../graph.js';
import { html } from '../html.js';
import { Rows } from '../list.js';
import { eventsSince, listen } from '../live.js';
import { go, link, refine, route } from '../router.js';
import { Age, Chip, Field, Loaded, Progress, Row, useRead } from '../ui.js';
import { Waterfall } from '../waterfall.js';

const SATISFIED = ['completed', 'skipped'];
/// Events that change the plan, so that everything is read again.
const isPlan = ({ kind }) => /^(workflow\.(planned|replanned|imported|moved|repository)|task\.(added|changed|removed|dependency))/.test(kind);
const isWork = ({ kind }) => kind.startsWith('task.') || kind.startsWith('workflow.');

const readTask = (id) => readPath(`tasks/${id}`);

/// The fields that an event changed, with their new values.
const after = ({ data, time }) => ({
  ...Object.fromEntries(Object.entries(data?.changed ?? {}).map(([field, [, value]]) => [field, value])),
  updated_at: time,
});

/// Computes what depends on the statuses of all tasks.
function computed(page) {
  const status = new Map(page.tasks.map((task) => [task.name, task.status]));
  const tasks = page.tasks.map((task) => {
    const isOver = ['completed', 'skipped', 'cancelled', 'dead'].includes(task.status);
    const blockedBy = isOver ? [] : task.depends_on.filter((name) => !SATISFIED.includes(status.get(name)));
    const isClaimable = task.status === 'pending' && page.status === 'in_progress' && blockedBy.length === 0;
    return { ...task, blocked_by: blockedBy, is_claimable: isClaimable, holder: task.status === 'in_progress' ? task.holder : null };
  });
  return { ...page, tasks, done: tasks.filter((task) => SATISFIED.includes(task.status)).length };
}

/// The workflow after some events.
function advance(page, events) {
  const own = new Map(page.tasks.map((task) => [task.id, task]));
  const news = events.filter(({ subject }) => own.has(subject) || subject === page.id);
  if (news.length === 0) return page;
  let of = {};
  for (const event of news) {
    if (event.subject === page.id) of = { ...of, ...after(event) };
    else own.set(event.subject, { ...own.get(event.subject), ...after(event) });
  }
  return computed({ ...page, ...of, tasks: [...own.values()] });
}

/// The workflow with its tasks. Events change single tasks; only a change of the plan reads all of them again.
function useWorkflow(id) {
  const state = useRead(`workflows/${encodeURIComponent(id)}`, {}, isPlan);
  const { answer, from } = state;
  // An answer may be older than events that came while it was under way.
  const read = useMemo(() => answer && advance(answer.data, eventsSince(from)), [answer]);
  const [changed, setChanged] = useState({});
  useEffect(() => read && listen((events) => {
    const change = (next) => setChanged((before) => ({ of: read, page: next(before.of === read ? before.page : read) }));
    if (!events.some(({ subject }) => subject === read.id || read.tasks.some((task) => task.id === subject))) return;
    change((page) => advance(page, events));
    // The name of the holder is in no event.
    const claimed = new Set(events.filter(({ kind }) => kind === 'task.claimed').map(({ subject }) => subject));
    read.tasks.filter((task) => claimed.has(task.id)).forEach((task) => readTask(task.id).then(({ data: { holder } }) => change((page) => ({
      ...page, tasks: page.tasks.map((one) => (one.id === task.id && one.status === 'in_progress' ? { ...one, holder } : one)),
    })), () => {}));
  }), [read]);
  return { ...state, answer: answer && { ...answer, data: changed.of === read ? changed.page : read } };
}

/// How far a task is, as the server says it for the graph.
function stateOf({ status, holder, is_claimable: isClaimable }) {
  const words = `${isClaimable ? 'ready' : status.replaceAll('_', ' ')}${holder ? ` by ${holder}` : ''}`;
  if (SATISFIED.includes(status)) return { state: 'done', words };
  if (['dead', 'cancelled'].includes(status)) return { state: 'failed', words };
  if (status === 'waiting_input') return { state: 'asks', words: 'asks a person' };
  if (holder) return { state: 'working', words };
  return { state: isClaimable ? 'ready' : 'waiting', words };
}

export function Workflow({ id, query }) {
  const state = useWorkflow(id);
  return html`<p class="crumbs"><a href=${link('workflows')}>Workflows</a></p><${Loaded} state=${state} title=${id}>${({ data }) => html`
    <h1>${data.name} <${Chip} word=${data.status}/></h1>
    ${data.summary && html`<p class="text lead">${data.summary}</p>`}
    <p class="facts"><${Progress} ...${data}/>
      ${data.worktree && html`<span><span class="dim">Worktree</span> ${data.worktree.name}</span>`}
      ${data.repository_names.length > 0 && html`<span><span class="dim">Repositories</span> ${data.repository_names.join(', ')}</span>`}
      <span class="dim">changed <${Age} of=${data.updated_at}/> ago</span></p>
    <dl><${Field} name="Ended because">${data.error}<//></dl>
    <p class="actions"><${Actions} on="workflow" of=${data}/></p>
    <${Plan} workflow=${data} chosen=${query.task}/>
    <h2>Time</h2><${Times} id=${data.id}/>`}<//>`;
}

function Plan({ workflow, chosen }) {
  const { tasks } = workflow;
  const state = useRead('graph', { subject: workflow.id }, isWork);
  const byId = useMemo(() => new Map(tasks.map((task) => [task.id, task])), [tasks]);
  const graph = state.answer?.data;
  const id = tasks.find(({ name }) => name === chosen)?.id;
  const lit = useMemo(() => graph && id && related(graph.edges, id), [graph, id]);
  const choose = (one) => refine({ task: byId.get(one)?.name }, true);
  const open = (one) => go('task', one);
  const describe = (one) => (byId.has(one) ? stateOf(byId.get(one)) : { state: 'waiting', words: '' });
  useEffect(() => {
    const press = (event) => { if (event.key === 'Escape' && route.value.query.task && !document.querySelector('dialog[open]')) choose(undefined); };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [byId]);
  const row = (task) => html`<${Row} key=${task.id} href=${link('task', task.id)} isAway=${lit && !lit.has(task.id)}>
    <${Chip} word=${task.is_claimable ? 'ready' : task.status}/><span class="name">${task.name}</span>
    <span class="reason">${reason(task)}</span><${Age} of=${task.updated_at}/><//>`;
  const left = graph?.critical_path.length;
  return html`<div class="plan">
    <section aria-labelledby="graph-title"><h2 id="graph-title">Graph
      ${left > 0 && html` <span class="dim"><i class="sample critical"/> critical path: ${left} of ${tasks.length} tasks left</span>`}
      ${id && html` <span class="dim">spotlight on ${chosen} <button type="button" class="quiet" onClick=${() => choose(undefined)}>Clear</button></span>`}</h2>
      <${Loaded} state=${state}>${() => html`<${Graph} graph=${graph} state=${describe} chosen=${id} choose=${choose} open=${open}
        label="Dependencies of ${workflow.name}, left to right"/>`}<//></section>
    <section aria-labelledby="tasks-title"><h2 id="tasks-title">Tasks <span class="dim">${tasks.length}</span></h2>
      <${Tasks} tasks=${tasks} row=${row}/></section></div>`;
}

function Tasks({ tasks, row }) {
  const [box, setBox] = useState({ current: null });
  const hold = (element) => { if (element && element !== box.current) setBox({ current: element }); };
  return html`<div class="tall" ref=${hold}>${box.current && html`<${Rows} items=${tasks} row=${row} scroller=${box} label="Tasks"/>`}</div>`;
}

function Times({ id }) {
  const state = useRead(`workflows/${id}/summary`, {}, isWork);
  return html`<${Loaded} state=${state}>${({ data }) => html`<${Waterfall} timeline=${data.timeline}/>`}<//>`;
}

function reason({ question, error, holder, blocked_by: blockedBy, outcome, status }) {
  if (status === 'waiting_input') return question;
  if (holder) return `by ${holder}`;
  if (status === 'completed') return outcome;
  if (error) return error;
  return blockedBy.length ? `waits for ${blockedBy.join(', ')}` : '';
}
