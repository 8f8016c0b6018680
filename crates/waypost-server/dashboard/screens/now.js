// Now: everything by who has to act next. The server decides groups, reasons and order.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { Rows } from '../list.js';
import { link } from '../router.js';
import { isInScope, scope, worktreeName } from '../scope.js';
import { Age, Chip, Empty, Loaded, Row, useRead } from '../ui.js';

const TITLES = { needs_you: 'Needs you', stuck: 'Stuck', working: 'Working', queued: 'Queued', done: 'Done' };

const target = ({ kind, id, workflow_id: workflow }) => {
  if (kind === 'task') return link('task', id);
  if (kind === 'message') return link('messages', id, { inbox: 1 });
  if (kind === 'workspace') return link('workspaces');
  return workflow ? link('workflows', workflow) : link('workflows', id);
};

/// The rows of the repository in the filter: the server filters by worktree alone.
function within(groups) {
  if (!scope.value.repo || scope.value.worktree) return groups;
  return groups.map((group) => {
    const rows = group.rows.filter(({ worktree_id: id }) => isInScope(id));
    return { ...group, rows, total: rows.length, isPart: group.total > group.rows.length };
  });
}

export function Now({ query }) {
  const { repo, worktree } = scope.value;
  const state = useRead('status', { limit: query.limit ?? (repo ? 1000 : 50), worktree_id: worktree });
  const groups = within(state.answer?.data.groups ?? []);
  return html`<h1>Now</h1><${Loaded} state=${state}>${() => html`
    <ul class="counts" aria-label="Groups">${groups.map(({ group, total }) => html`
      <li class=${total ? group : 'none'}><b>${total}</b> ${total !== 1 && group === 'needs_you' ? 'need you' : TITLES[group].toLowerCase()}</li>`)}</ul>
    ${groups.filter(({ total }) => total).map((group) => html`<${Group} key=${group.group} ...${group} query=${query}/>`)}
    ${groups.every(({ total }) => !total) && html`<${Empty}>Nothing runs and nothing waits.
      Start a workflow: <code>way workflow create NAME --plan FILE --start</code><//>`}`}<//>`;
}

/// What a person can do in the row itself: the actions of the record that the row stands for.
const rowAction = ({ kind, id, name, chip, reason, workflow_id: workflow }) => {
  const status = { asks: 'waiting_input', conflict: 'waiting_input', dead: 'dead', approve: 'awaiting_merge', paused: 'paused', 'not started': 'ready' }[chip];
  if (kind === 'task' && ['asks', 'conflict', 'dead'].includes(chip)) {
    return html`<${Actions} on="task" of=${{ id, name, status, question: reason }} only=${['answer', 'retry']}/>`;
  }
  return kind === 'workflow' && html`<${Actions} on="workflow" of=${{ id: workflow ?? id, name, status }} only=${['merged', 'resume', 'start']}/>`;
};

function Group({ group, rows, total, isPart, query }) {
  return html`<section class=${group} aria-labelledby=${group}>
    <h2 id=${group}>${TITLES[group]} <span class="dim">${total}</span></h2>
    <${Rows} items=${rows} row=${(row) => html`
      <div class="entry" key=${row.id}><${Row} href=${target(row)}>
        <${Chip} word=${row.chip}/>
        <span class="name">${row.name}</span>
        <span class="reason">${row.reason}</span>
        <span class="dim place">${worktreeName(row.worktree_id)}</span>
        <${Age} of=${row.since}/>
      <//>${group === 'needs_you' ? html`<span class="acts">${rowAction(row)}</span>` : rowAction(row)}</div>`}/>
    ${total > rows.length && html`<p class="more">The first ${rows.length} of ${total} are shown.
      <a href=${link('now', '', { ...query, limit: 1000 })}>Show all</a></p>`}
    ${isPart && html`<p class="more">There are more than 1000 in all repositories; those of this one among the others are not shown.</p>`}
  </section>`;
}
