// Workflows: the list.
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { link } from '../router.js';
import { scope } from '../scope.js';
import { Age, Chip, Progress, Row } from '../ui.js';
import { Workflow } from './workflow.js';

export const Workflows = ({ subject, query }) => (subject
  ? html`<${Workflow} id=${subject} query=${query}/>`
  : html`<${All}/>`);

function All() {
  const { repo, worktree } = scope.value;
  const list = useList('workflows', { worktree_id: worktree, repository_id: repo }, { kinds: ['workflow.', 'task.'] });
  return html`<h1>Workflows</h1><${List} list=${list} none=${html`There is no workflow yet. Create one: <code>way workflow create NAME --plan FILE --start</code>`} row=${(one) => html`
    <${Row} key=${one.id} href=${link('workflows', one.id)}>
      <${Chip} word=${one.status}/><span class="name">${one.name}</span>
      <span class="reason">${one.summary}</span><${Progress} ...${one}/><${Age} of=${one.updated_at}/>
    <//>`}/>`;
}
