// Workspaces: their size, branch and work that exists nowhere else, and why one stays.
import { useEffect, useState } from '../vendor/hooks.js';
import { performed } from '../actions.js';
import { read } from '../api.js';
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { link } from '../router.js';
import { scope } from '../scope.js';
import { Age, Chip, Field, Loaded, Row, useRead } from '../ui.js';

export const Workspaces = ({ subject, query }) => (subject
  ? html`<${Workspace} id=${subject}/>`
  : html`<${All} query=${query}/>`);

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return '';
  const unit = Math.min(bytes ? Math.floor(Math.log2(bytes) / 10) : 0, 4);
  return `${(bytes / 1024 ** unit).toFixed(unit ? 1 : 0)} ${UNITS[unit]}`;
}

function All({ query }) {
  const { repo, worktree } = scope.value;
  const isAll = query.all === 'true';
  const list = useList('workspaces', { worktree_id: worktree, repository: repo, all: isAll || undefined }, { kinds: ['workspace.', 'job.'], one: (id) => `workspaces/${id}` });
  const none = html`No workspace exists. A job gets one: <code>way job start -- COMMAND</code>`;
  return html`<h1>Workspaces</h1>
    <p class="tabs"><a href=${link('workspaces', '', { ...query, all: '' })} aria-current=${isAll ? undefined : 'page'}>On disk</a>
      <a href=${link('workspaces', '', { ...query, all: 'true' })} aria-current=${isAll ? 'page' : undefined}>With removed</a></p>
    <${List} list=${list} none=${none} row=${(one) => html`
      <${Row} key=${one.id} href=${link('workspaces', one.id)}>
        <${Chip} word=${one.is_pinned ? `${one.status}, pinned` : one.status}/><span class="name">${one.task ?? one.branch ?? one.id}</span>
        <span class="reason" title=${one.path}>${one.note ?? (one.task ? one.branch : undefined) ?? one.path}</span>
        ${one.status === 'kept' && html`<${Work} workspace=${one}/>`}
        <span class="number">${size(one.size)}</span><${Age} of=${one.updated_at}/>
      <//>`}/>`;
}

/// Examining a workspace runs its version control tool, so few are examined at a time, and again only after a change.
const MAX_EXAMINED_AT_ONCE = 2;
const queue = [];
let running = 0;

function next() {
  while (running < MAX_EXAMINED_AT_ONCE && queue.length > 0) {
    running += 1;
    queue.shift()().finally(() => {
      running -= 1;
      next();
    });
  }
}

/// The state of the files of a workspace, or the error.
function useExplained({ id, updated_at: at }) {
  const [state, setState] = useState({});
  const actions = performed.value;
  useEffect(() => {
    let isWanted = true;
    queue.push(async () => {
      if (!isWanted) return;
      const after = await read(`workspaces/${encodeURIComponent(id)}/explain`).then((answer) => answer.data, (error) => ({ objections: [error.message] }));
      if (isWanted) setState(after);
    });
    next();
    return () => { isWanted = false; };
  }, [id, at, actions]);
  return state;
}

/// The work that only the workspace has, in few words.
function Work({ workspace }) {
  const { changed, untracked, ahead, objections } = useExplained(workspace);
  if (!objections) return html`<span class="dim">…</span>`;
  if (objections.length === 0) return html`<span class="dim removable">can be removed</span>`;
  const isDirty = changed + untracked > 0;
  const text = [isDirty && 'dirty', ahead > 0 && `${ahead} ahead`].filter(Boolean).join(', ');
  return html`<span class="waits" title=${objections.join(', ')}>${text || 'stays'}</span>`;
}

function Workspace({ id }) {
  const state = useRead(`workspaces/${encodeURIComponent(id)}`);
  return html`<p class="crumbs"><a href=${link('workspaces')}>Workspaces</a></p>
    <${Loaded} state=${state} title=${id}>${({ data }) => html`<${Details} workspace=${data}/>`}<//>`;
}

function Details({ workspace: one }) {
  const { objections = [], changed, untracked, ahead } = useExplained(one);
  return html`<h1>${one.task ?? one.branch ?? one.id} <${Chip} word=${one.status}/></h1>
      ${objections.length > 0 && !one.removed_at && html`<div class="note wait"><h2>Why it stays</h2>
        <ul>${objections.map((why) => html`<li key=${why}>${why}</li>`)}</ul></div>`}
      <p class="actions"><${Actions} on="workspace" of=${one}/></p>
      <dl><${Field} name="Id">${one.id}<//>
        <${Field} name="Job">${one.job_id && html`<a href=${link('jobs', one.job_id)}>${one.job_id}</a>`}<//>
        <${Field} name="Directory">${one.path}<//><${Field} name="Machine">${one.machine}<//>
        <${Field} name="Strategy">${one.strategy}<//><${Field} name="Branch">${one.branch}<//>
        <${Field} name="Starts from">${one.base}<//><${Field} name="Size">${size(one.size)}<//>
        <${Field} name="Changed files">${changed}<//><${Field} name="New files">${untracked}<//>
        <${Field} name="Commits that no remote has">${ahead}<//>
        <${Field} name="Snapshot">${one.snapshot}<//><${Field} name="Merged as">${one.merge_commit}<//>
        <${Field} name="Pull request">${one.pr_url}<//><${Field} name="Note">${one.note}<//>
        <${Field} name="Used"><${Age} of=${one.updated_at}/> ago<//></dl>`;
}
