// Task: what it is about, how far it is, what its agents wrote down, and what its jobs print.
import { useState } from '../vendor/hooks.js';
import { isAdmin } from '../api.js';
import { Actions, InlineAction } from '../dialogs.js';
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { link } from '../router.js';
import { Age, Chip, Field, Loaded, useRead } from '../ui.js';
import { Log, jobRow, useJobs } from './jobs.js';
import { History } from './lists.js';

export function Task({ subject }) {
  const path = `tasks/${encodeURIComponent(subject)}`;
  const state = useRead(path);
  return html`<${Loaded} state=${state} title=${subject}>${({ data }) => html`
    <p class="crumbs"><a href=${link('workflows', data.workflow_id, { task: data.name })}>${data.workflow}</a></p>
    <h1>${data.name} <${Chip} word=${data.is_claimable ? 'ready' : data.status}/></h1>
    ${data.question && data.status === 'waiting_input' && html`<div class="note wait"><h2>Question</h2><p class="text">${data.question}</p>
      <${InlineAction} id="answer" of=${data}/></div>`}
    ${data.error && html`<div class="note bad"><h2>Last error</h2><p class="text">${data.error}</p></div>`}
    <p class="text">${data.description}</p>
    <p class="actions"><${Actions} on="task" of=${data} except="answer"/></p>
    <dl>
      <${Field} name="Held by">${data.holder}<//>
      <${Field} name="Lease until">${data.expires_at && new Date(data.expires_at).toLocaleString()}<//>
      <${Field} name="Assigned to">${data.assigned_to}<//>
      <${Field} name="Waits for">${data.blocked_by.join(', ')}<//>
      <${Field} name="Depends on">${data.depends_on.join(', ')}<//>
      <${Field} name="Attempts">${`${data.attempts} of ${data.max_attempts}`}<//>
      <${Field} name="Issue">${data.issue && html`<a href=${link('issues', data.issue)}>${data.issue}</a>`}<//>
      <${Field} name="Repository">${data.repository}<//>
      <${Field} name="Worktree">${data.worktree?.name}<//>
      <${Field} name="Outcome">${data.outcome && html`<span class="text">${data.outcome}</span>`}<//>
      <${Field} name="Evidence">${data.evidence && html`<span class="text">${data.evidence}</span>`}<//>
    </dl>
    ${hasText(data.plan) && html`<h2>Plan</h2><p class="text">${written(data.plan)}</p>`}
    ${data.acceptance.length > 0 && html`<h2>Done when</h2><ul>${data.acceptance.map((one) => html`<li>${one}</li>`)}</ul>`}
    <${Checkpoints} path=${path}/>${data.workspace_id && isAdmin.value && html`<${Changes} workspace=${data.workspace_id}/>`}<${Jobs} task=${data.id}/>
    <h2>Events</h2><${History} subject=${data.id}/>`}<//>`;
}

/// A plan is a text, or any other value.
const written = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
const hasText = (value) => value !== null && !['""', '{}', '[]', 'null'].includes(JSON.stringify(value));

function Checkpoints({ path }) {
  const list = useList(`${path}/checkpoints`, {}, { kinds: ['task.checkpointed'] });
  return html`<h2>Checkpoints</h2><${List} list=${list} none="No agent has written one." row=${(one) => html`
    <div class="row" key=${one.id}><${Chip} word=${one.type}/><span class="reason title" title=${one.summary}>${one.summary}</span>
      <${Age} of=${one.created_at}/></div>`}/>`;
}

const KINDS = { '+': 'added', '-': 'removed', '@': 'hunk' };
const kindOf = (line) => (/^(diff|index|---|\+\+\+|new|deleted|similarity|rename) /.test(line) ? 'file' : KINDS[line[0]] ?? '');

/// The changes in the workspace of the task. They are read when they are wanted: the server compares all files.
function Changes({ workspace }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="changes" onToggle=${(event) => setOpen(event.target.open)}>
    <summary><h2>Changes <span class="dim">in its workspace</span></h2></summary>
    ${isOpen && html`<${Diff} workspace=${workspace}/>`}</details>`;
}

function Diff({ workspace }) {
  const state = useRead(`workspaces/${workspace}/diff`, {}, ({ kind }) => kind.startsWith('job.') || kind === 'task.checkpointed');
  return html`<${Loaded} state=${state}>${({ data: { diff, is_cut: isCut, base } }) => (diff === ''
    ? html`<p class="empty">Nothing has changed since ${base.slice(0, 12)}.</p>`
    : html`<pre class="log diff" tabindex="0" aria-label="Changes since ${base.slice(0, 12)}">${diff.split('\n').map((line) => html`
      <span class=${kindOf(line)}>${line}${'\n'}</span>`)}</pre>
      ${isCut && html`<p class="more">The diff is longer. <code>way ws diff ${workspace} --max-bytes 4194304</code> shows more.</p>`}`)}<//>`;
}

/// The jobs of the task, and the output of the latest one.
function Jobs({ task }) {
  const list = useJobs({ task });
  const [find, setFind] = useState('');
  const latest = list.rows[0];
  return html`<h2>Jobs</h2><${List} list=${list} none="No job ran for it." row=${jobRow}/>
    ${latest && html`<h2>Log <span class="dim">of the latest job</span></h2><${Log} key=${latest.id} id=${latest.id} find=${find} setFind=${setFind}/>`}`;
}
