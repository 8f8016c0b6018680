// Now: everything by who has to act next. The server decides groups, reasons and order.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { Rows } from '../list.js';
import { link } from '../router.js';
import { scope, worktreeName } from '../scope.js';
import { Age, Chip, Empty, Loaded, Row, useRead } from '../ui.js';

const TITLES = { needs_you: 'Needs you', stuck: 'Stuck', working: 'Working', queued: 'Queued', done: 'Done' };

const target = ({ kind, id, workflow_id: workflow }) => {
  if (kind === 'task') return link('task', id);
  if (kind === 'message') return link('messages', id, { inbox: 1 });
  if (kind === 'workspace') return link('workspaces');
  return workflow ? link('workflows', workflow) : link('workflows', id);
};

export function Now({ query }) {
  const { repo, worktree } = scope.value;
  const state = useRead('status', { limit: query.limit ?? 50, worktree_id: worktree, repository: repo });
  const groups = state.answer?.data.groups ?? [];
  return html`<h1>Now</h1><${Loaded} state=${state}>${() => html`
    <ul class="counts" aria-label="Groups">${groups.map(({ group, total, has_more: hasMore }) => html`
      <li class=${total ? group : 'none'}><b>${total}${hasMore && '+'}</b> ${total !== 1 && group === 'needs_you' ? 'need you' : TITLES[group].toLowerCase()}</li>`)}</ul>
    ${groups.filter(({ total }) => total).map((group) => html`<${Group} key=${group.group} ...${group} query=${query}/>`)}
    ${groups.every(({ total }) => !total) && html`<${Empty}>Nothing runs and nothing waits.<//>
      <ul class="steps"><li>Write down what there is to do: <code>way add TITLE</code></li>
        <li>Let agents work on a plan: <code>way workflow create NAME --plan FILE --start</code></li>
        <li>Connect an agent: <code>way setup AGENT</code></li></ul>`}`}<//>`;
}

/// What a person can do in the row itself: the actions of the record that the row stands for.
const rowAction = ({ kind, id, name, chip, reason, workflow_id: workflow }) => {
  const status = { asks: 'waiting_input', conflict: 'waiting_input', dead: 'dead', approve: 'awaiting_merge', paused: 'paused', 'not started': 'ready' }[chip];
  if (kind === 'task' && ['asks', 'conflict', 'dead'].includes(chip)) {
    return html`<${Actions} on="task" of=${{ id, name, status, question: reason }} only=${['answer', 'retry']}/>`;
  }
  return kind === 'workflow' && html`<${Actions} on="workflow" of=${{ id: workflow ?? id, name, status }} only=${['merged', 'resume', 'start']}/>`;
};

/// The maximum number of rows of a group that the server sends.
const MAX_ROWS = 1000;

function Group({ group, rows, total, has_more: hasMore, query }) {
  return html`<section class=${group} aria-labelledby=${group}>
    <h2 id=${group}>${TITLES[group]} <span class="dim">${total}${hasMore && '+'}</span></h2>
    <${Rows} items=${rows} row=${(row) => html`
      <div class="entry" key=${row.id}><${Row} href=${target(row)}>
        <${Chip} word=${row.chip}/>
        <span class="name">${row.name}</span>
        <span class="reason">${row.reason}</span>
        <span class="dim place">${worktreeName(row.worktree_id)}</span>
        <${Age} of=${row.since}/>
      <//>${group === 'needs_you' ? html`<span class="acts">${rowAction(row)}</span>` : rowAction(row)}</div>`}/>
    ${(hasMore || total > rows.length) && html`<p class="more">The first ${rows.length} of ${hasMore ? 'more than ' : ''}${total} are shown.${' '}
      ${total > rows.length && rows.length < MAX_ROWS
    ? html`<a href=${link('now', '', { ...query, limit: MAX_ROWS })}>Show ${total <= MAX_ROWS && !hasMore ? 'all' : Math.min(total, MAX_ROWS)}</a>`
    : html`All of them are in their <a href=${link('workflows')}>workflows</a>.`}</p>`}
  </section>`;
}
