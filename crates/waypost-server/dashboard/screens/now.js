// Now: everything by who has to act next. The server decides groups, reasons and order.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { link } from '../router.js';
import { Age, Chip, Empty, Loaded, Row, useRead } from '../ui.js';

const TITLES = { needs_you: 'Needs you', stuck: 'Stuck', working: 'Working', queued: 'Queued', done: 'Done' };

const target = ({ kind, id, workflow_id: workflow }) => {
  if (kind === 'task') return link('task', id);
  return workflow ? link('workflows', workflow) : link('now');
};

export function Now({ query }) {
  const state = useRead('status', { limit: query.limit ?? 50, worktree_id: query.worktree });
  const groups = state.answer?.data.groups ?? [];
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

function Group({ group, rows, total, query }) {
  return html`<section aria-labelledby=${group}>
    <h2 id=${group}>${TITLES[group]} <span class="dim">${total}</span></h2>
    <div class="rows">${rows.map((row) => html`
      <div class="line" key=${row.id}><${Row} href=${target(row)}>
        <${Chip} word=${row.chip}/>
        <span class="name">${row.name}</span>
        <span class="reason">${row.reason}</span>
        <${Age} of=${row.since}/>
      <//>${group === 'needs_you' ? html`<span class="acts">${rowAction(row)}</span>` : rowAction(row)}</div>`)}</div>
    ${total > rows.length && html`<p class="more">The first ${rows.length} of ${total} are shown.
      <a href=${link('now', '', { ...query, limit: 1000 })}>Show all</a></p>`}
  </section>`;
}
