// Screens that are one list each: agents, jobs, events, repositories.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { link } from '../router.js';
import { Age, Chip, Empty, Field, Loaded, More, Row, usePages, useRead } from '../ui.js';

/// A screen with all records of a path. `show` returns the cells of one.
const list = (title, path, none, show) => ({ query }) => {
  const worktree = path === 'repositories' ? undefined : query.worktree;
  const pages = usePages(path, { worktree_id: worktree });
  return html`<h1>${title}</h1><${Loaded} state=${pages.state}>${(answer) => html`
    ${answer.data.length === 0 ? html`<${Empty}>${none}<//>` : html`<div class="rows">${answer.data.map(show)}</div>`}
    <${More} pages=${pages} answer=${answer}/>`}<//>`;
};

export const Agents = list('Agents', 'agents', 'No agent has registered.', (agent) => html`
  <div class="row" key=${agent.id}><${Chip} word=${agent.status}/><span class="name">${agent.name}</span>
    <span class="reason">${agent.role}${agent.holds?.length ? `, holds ${agent.holds.map(({ name }) => name).join(', ')}` : ''}</span>
    <${Age} of=${agent.last_heartbeat}/><${Actions} on="agent" of=${agent}/></div>`);

export const Events = list('Events', 'events', 'Nothing has happened yet.', (event) => html`
  <div class="row" key=${event.sequence}><span class="dim">${event.sequence}</span><span class="name">${event.kind}</span>
    <span class="reason">${event.data?.name ?? event.subject} by ${event.actor}</span><${Age} of=${event.time}/></div>`);

export const Repositories = list('Repositories', 'repositories', 'No repository is known.', (one) => html`
  <div class="row" key=${one.id}><${Chip} word=${one.vcs}/><span class="name">${one.name}</span><span class="reason">${one.path}</span></div>`);

const JobList = list('Jobs', 'jobs', 'No job ran yet.', (job) => html`
  <${Row} key=${job.id} href=${link('jobs', job.id)}><${Chip} word=${job.status}/>
    <span class="name">${job.task ?? job.id}</span><span class="reason">${job.command.join(' ')}</span><${Age} of=${job.updated_at}/><//>`);

export const Jobs = ({ subject, query }) => (subject
  ? html`<${Job} id=${subject}/>`
  : html`<${JobList} query=${query}/>`);

function Job({ id }) {
  const state = useRead(`jobs/${encodeURIComponent(id)}`);
  return html`<p class="crumbs"><a href=${link('jobs')}>Jobs</a></p><${Loaded} state=${state}>${({ data }) => html`
    <h1>${data.task ?? data.id} <${Chip} word=${data.status}/></h1>
    ${data.error && html`<div class="note bad"><p class="text">${data.error}</p></div>`}
    <dl><${Field} name="Command"><code>${data.command.join(' ')}</code><//>
      <${Field} name="Exit code">${data.exit_code}<//><${Field} name="Machine">${data.machine}<//>
      <${Field} name="Directory">${data.workspace_dir}<//><${Field} name="Outcome">${data.output}<//>
      <${Field} name="Task">${data.task_id && html`<a href=${link('task', data.task_id)}>${data.task ?? data.task_id}</a>`}<//></dl>
    <p class="actions"><${Actions} on="job" of=${data}/></p>
    <h2>Log</h2><${Log} id=${data.id}/>`}<//>`;
}

/// The last lines of the output. It is read again after every event.
function Log({ id }) {
  const state = useRead(`jobs/${encodeURIComponent(id)}/log`, { tail: 1000 });
  return html`<${Loaded} state=${state}>${({ data }) => html`
    <pre class="log" tabindex="0" aria-label="Output of the job">${data.log || 'The job has printed nothing.'}</pre>`}<//>`;
}
