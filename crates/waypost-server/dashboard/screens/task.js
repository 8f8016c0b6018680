// Task: what it is about, how far it is, and what its agents wrote down.
import { Actions, InlineAction } from '../dialogs.js';
import { html } from '../html.js';
import { link } from '../router.js';
import { Age, Chip, Empty, Field, Loaded, More, Row, usePages, useRead } from '../ui.js';

export function Task({ subject }) {
  const path = `tasks/${encodeURIComponent(subject)}`;
  const state = useRead(path);
  return html`<${Loaded} state=${state}>${({ data }) => html`
    <p class="crumbs"><a href=${link('workflows', data.workflow_id)}>${data.workflow}</a></p>
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
      <${Field} name="Outcome">${data.outcome}<//>
      <${Field} name="Evidence">${data.evidence}<//>
    </dl>
    ${data.acceptance.length > 0 && html`<h2>Done when</h2><ul>${data.acceptance.map((one) => html`<li>${one}</li>`)}</ul>`}
    <${Checkpoints} path=${path}/><${Jobs} task=${data.id}/>`}<//>`;
}

function Checkpoints({ path }) {
  const pages = usePages(`${path}/checkpoints`);
  return html`<h2>Checkpoints</h2><${Loaded} state=${pages.state}>${(answer) => html`
    ${answer.data.length === 0 && html`<${Empty}>No agent has written one.<//>`}
    <ol class="plain">${answer.data.map((one) => html`<li key=${one.id}>
      <${Chip} word=${one.type}/> <span class="text">${one.summary}</span> <${Age} of=${one.created_at}/></li>`)}</ol>
    <${More} pages=${pages} answer=${answer}/>`}<//>`;
}

function Jobs({ task }) {
  const pages = usePages('jobs', { task });
  return html`<h2>Jobs</h2><${Loaded} state=${pages.state}>${(answer) => html`
    ${answer.data.length === 0 && html`<${Empty}>No job ran for it.<//>`}
    <div class="rows">${answer.data.map((job) => html`<${Row} key=${job.id} href=${link('jobs', job.id)}>
      <${Chip} word=${job.status}/><span class="name">${job.id}</span><span class="reason">${job.command.join(' ')}</span>
      <${Age} of=${job.updated_at}/><//>`)}</div><${More} pages=${pages} answer=${answer}/>`}<//>`;
}
