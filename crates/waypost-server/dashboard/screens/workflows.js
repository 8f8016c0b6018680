// Workflows: the list, and one workflow with its tasks in plan order.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { link } from '../router.js';
import { Age, Chip, Empty, Field, Loaded, More, Row, usePages, useRead } from '../ui.js';

const Progress = ({ done, total }) => html`<span class="progress">
  <progress max=${total || 1} value=${done} aria-label="${done} of ${total} tasks done"/> ${done}/${total}</span>`;

export const Workflows = ({ subject, query }) => (subject
  ? html`<${Workflow} id=${subject}/>`
  : html`<${List} query=${query}/>`);

function List({ query }) {
  const pages = usePages('workflows', { worktree_id: query.worktree });
  return html`<h1>Workflows</h1><${Loaded} state=${pages.state}>${(answer) => html`
    <div class="rows">${answer.data.map((one) => html`
      <${Row} key=${one.id} href=${link('workflows', one.id)}>
        <${Chip} word=${one.status}/><span class="name">${one.name}</span>
        <span class="reason">${one.summary}</span><${Progress} ...${one}/><${Age} of=${one.updated_at}/>
      <//>`)}</div>
    ${answer.data.length === 0 && html`<${Empty}>No workflow was created here yet.<//>`}
    <${More} pages=${pages} answer=${answer}/>`}<//>`;
}

function Workflow({ id }) {
  const state = useRead(`workflows/${encodeURIComponent(id)}`);
  return html`<p class="crumbs"><a href=${link('workflows')}>Workflows</a></p><${Loaded} state=${state}>${({ data }) => html`
    <h1>${data.name} <${Chip} word=${data.status}/></h1>
    <p>${data.summary}</p><p><${Progress} ...${data}/></p>
    <dl><${Field} name="Worktree">${data.worktree?.name}<//><${Field} name="Repositories">${data.repository_names.join(', ')}<//>
      <${Field} name="Ended because">${data.error}<//></dl>
    <p class="actions"><${Actions} on="workflow" of=${data}/></p>
    <h2>Tasks <span class="dim">${data.tasks.length}</span></h2>
    <div class="rows">${data.tasks.map((task) => html`
      <${Row} key=${task.id} href=${link('task', task.id)}>
        <${Chip} word=${task.is_claimable ? 'ready' : task.status}/><span class="name">${task.name}</span>
        <span class="reason">${reason(task)}</span><${Age} of=${task.updated_at}/>
      <//>`)}</div>`}<//>`;
}

function reason({ question, error, holder, blocked_by: blockedBy, outcome, status }) {
  if (status === 'waiting_input') return question;
  if (holder) return `by ${holder}`;
  if (status === 'completed') return outcome;
  if (error) return error;
  return blockedBy.length ? `waits for ${blockedBy.join(', ')}` : '';
}
