// Screens that are one list each: agents, events, repositories.
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { go, link } from '../router.js';
import { isInScope, scope, worktreeName } from '../scope.js';
import { Age, Chip, Field, Loaded, Row, useRead } from '../ui.js';

export const Agents = ({ subject }) => (subject ? html`<${Agent} name=${subject}/>` : html`<${AllAgents}/>`);

function AllAgents() {
  const { repo, worktree } = scope.value;
  const list = useList('agents', { worktree_id: worktree, repository: repo }, { kinds: ['agent.', 'task.claimed', 'task.completed', 'task.released', 'task.expired', 'task.failed', 'task.asked'] });
  return html`<h1>Agents</h1><${List} list=${list} none=${html`There is no agent yet. Connect one: <code>way setup AGENT</code>`} row=${(agent) => html`
    <div class="entry" key=${agent.id}><${Row} href=${link('agents', agent.name)}><${Chip} word=${agent.status}/><span class="name">${agent.name}</span>
      <span class="reason">${agent.role}${agent.holds?.length ? `, holds ${agent.holds.map(({ name }) => name).join(', ')}` : ''}${agent.unread > 0 ? `, ${agent.unread} unread` : ''}</span>
      <${Age} of=${agent.last_heartbeat}/><//><${Actions} on="agent" of=${agent}/></div>`}/>`;
}

function Agent({ name }) {
  const state = useRead(`agents/${encodeURIComponent(name)}`);
  return html`<p class="crumbs"><a href=${link('agents')}>Agents</a></p><${Loaded} state=${state} title=${name}>${({ data }) => html`
    <h1>${data.name} <${Chip} word=${data.status}/></h1>
    <p class="actions"><${Actions} on="agent" of=${data}/></p>
    <dl><${Field} name="Role">${data.role}<//><${Field} name="Capabilities">${(data.capabilities ?? []).join(', ')}<//>
      <${Field} name="Worktree">${data.worktree?.name}<//><${Field} name="Unread messages">${data.unread}<//>
      <${Field} name="Last sign of life">${data.last_heartbeat && html`<${Age} of=${data.last_heartbeat}/> ago`}<//></dl>
    <h2>Holds <span class="dim">${data.holds.length}</span></h2>
    ${data.holds.length === 0 ? html`<p class="empty">It works on nothing.</p>` : html`<div class="rows">${data.holds.map((one) => html`
      <${Row} key=${one.subject} href=${link(one.subject.startsWith('tk_') ? 'task' : 'issues', one.subject)}>
        <span class="name">${one.name}</span><span class="reason">${one.expires_at && `lease until ${new Date(one.expires_at).toLocaleTimeString()}`}</span><//>`)}</div>`}
    <h2>Events</h2><${History} subject=${data.id}/>`}<//>`;
}

/// Where the record of an event is shown.
function target({ kind, subject, data }) {
  const [noun] = kind.split('.');
  const screen = { task: 'task', workflow: 'workflows', job: 'jobs', issue: 'issues', message: 'messages' }[noun];
  if (noun === 'agent' && data?.name) return link('agents', data.name);
  return screen ? link(screen, subject) : link('events', '', { subject });
}

const eventRow = (event) => html`<${Row} key=${event.sequence} href=${target(event)}>
  <span class="id">${event.sequence}</span><span class="name kind">${event.kind}</span>
  <span class="reason">${event.data?.name ?? event.data?.subject ?? event.subject} <span class="dim">by ${event.actor}</span></span>
  <span class="dim place">${worktreeName(event.worktree_id)}</span><${Age} of=${event.time}/><//>`;

const isOf = ({ kind, subject }) => (event) => event.kind.startsWith(kind ?? '') && (!subject || event.subject === subject);

function useEvents({ kind, subject }) {
  const { worktree } = scope.value;
  const list = useList('events', { kind, subject, worktree_id: worktree }, { kinds: [kind ?? ''], add: (event) => event });
  return { list, keep: (event) => isInScope(event.worktree_id) && isOf({ kind, subject })(event) };
}

/// The events of one record.
export function History({ subject }) {
  const { list, keep } = useEvents({ subject });
  return html`<${List} list=${list} keep=${keep} none="Nothing was recorded." row=${eventRow}/>`;
}

const KINDS = ['task.', 'workflow.', 'agent.', 'job.', 'workspace.', 'message.', 'issue.', 'worktree.', 'repository.', 'store.'];

export function Events({ query }) {
  const { list, keep } = useEvents(query);
  const choose = (event) => go('events', '', { ...query, kind: event.target.value });
  return html`<h1>Events</h1>
    <div class="filter"><label>Kind <select value=${query.kind ?? ''} onChange=${choose} data-filter><option value="">all</option>
      ${KINDS.map((kind) => html`<option key=${kind} value=${kind} selected=${kind === query.kind}>${kind.slice(0, -1)}</option>`)}</select></label>
      ${query.subject && html`<span>about ${query.subject} <a href=${link('events', '', { kind: query.kind })}>Show all</a></span>`}</div>
    <${List} list=${list} keep=${keep} none="Nothing has happened yet." row=${eventRow}/>`;
}

export function Repositories() {
  const list = useList('repositories', {}, { kinds: ['repository.'] });
  return html`<h1>Repositories</h1><${List} list=${list} none="No repository is known." keep=${({ id }) => !scope.value.repo || id === scope.value.repo} row=${(one) => html`
    <${Row} key=${one.id} href=${link('workflows', '', { repo: one.id, worktree: undefined })}><${Chip} word=${one.vcs}/><span class="name">${one.name}</span>
      <span class="reason">${one.path}</span><//>`}/>`;
}
