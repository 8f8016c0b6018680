// Everything that a person can do, in one table. Screens show the actions that the state of a record permits; the server decides.
import { signal } from './vendor/signals.js';
import { isAdmin, write } from './api.js';
import { version } from './live.js';

const OVER = ['completed', 'skipped', 'cancelled', 'dead'];
const LIVE = ['planning', 'ready', 'in_progress', 'paused', 'awaiting_merge'];
const PRIORITIES = [['0', 'P0, most urgent'], ['1', 'P1'], ['2', 'P2'], ['3', 'P3'], ['4', 'P4, least urgent']];
export const TYPES = ['task', 'bug', 'feature', 'epic', 'chore', 'question'];
export const STATUSES = ['open', 'in_progress', 'blocked', 'deferred', 'closed'];

const part = (text) => encodeURIComponent(text);
const words = (text) => (text ?? '').split(',').map((word) => word.trim()).filter(Boolean);
const reason = { name: 'reason', label: 'Reason' };

/// The fields of an issue, with its values.
const issueFields = (issue = {}) => [
  { name: 'title', label: 'Title', value: issue.title, isRequired: true },
  { name: 'description', label: 'Description', value: issue.description, type: 'area' },
  { name: 'acceptance_criteria', label: 'Done when', value: issue.acceptance_criteria, type: 'area' },
  { name: 'status', label: 'Status', value: issue.status ?? 'open', suggestions: STATUSES },
  { name: 'priority', label: 'Priority', value: `${issue.priority ?? 2}`, options: PRIORITIES },
  { name: 'issue_type', label: 'Type', value: issue.issue_type ?? 'task', suggestions: TYPES },
  { name: 'assignee', label: 'Assignee', value: issue.assignee },
  { name: 'labels', label: 'Labels, separated by commas', value: (issue.labels ?? []).join(', ') },
  { name: 'parent', label: 'Parent', value: issue.parent_id },
];

/// The body of a request that changes fields of an issue from former to new values.
function issueChange(before, after) {
  const changed = Object.keys(after).filter((name) => (before[name] ?? '') !== (after[name] ?? ''));
  const body = Object.fromEntries(changed.map((name) => [name, after[name] ?? '']));
  if ('priority' in body) body.priority = Number(body.priority);
  if ('labels' in body) {
    const [old, now] = [words(before.labels), words(after.labels)];
    body.labels = now.filter((label) => !old.includes(label));
    body.remove_labels = old.filter((label) => !now.includes(label));
  }
  return body;
}

const valuesOf = (fields) => Object.fromEntries(fields.map(({ name, value }) => [name, value ?? '']));
const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== '' && value !== false));
const taskEdit = ({ priority, max_attempts: attempts, acceptance, description }) => ({
  description,
  acceptance: acceptance.split('\n').map((line) => line.trim()).filter(Boolean),
  priority: Number(priority),
  max_attempts: Number(attempts),
});
const taskFields = (task) => [
  { name: 'description', label: 'Description', value: task.description, type: 'area' },
  { name: 'acceptance', label: 'Done when, one line each', value: task.acceptance.join('\n'), type: 'area' },
  { name: 'priority', label: 'Priority', value: `${task.priority}`, options: PRIORITIES },
  { name: 'max_attempts', label: 'Attempts at most', value: `${task.max_attempts}`, type: 'number' },
];

/// The body of a request that changes those fields of a task that the person changed: others may have changed meanwhile.
function taskChange(before, after) {
  const old = taskEdit(before);
  return Object.fromEntries(Object.entries(taskEdit(after)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name])));
}

/// Each action:
/// `on`: the kind of record. `name`: the button. `when`: whether the record's state permits it. `fields`: what to ask for.
/// `confirm`: the question to ask first, where work could be lost. `send`: method, path and body of the public operation.
/// `done`: the words after it. `undo`: the inverse operation, if there is one.
export const ACTIONS = {
  answer: {
    on: 'task', name: 'Answer', when: (task) => task.status === 'waiting_input',
    about: (task) => task.question,
    fields: () => [{ name: 'answer', label: 'Answer', type: 'area', isRequired: true }],
    send: (task, values) => ['POST', `tasks/${part(task.id)}/answer`, values],
    done: (task) => `Answered ${task.name}.`,
  },
  retry: {
    on: 'task', name: 'Retry', when: (task) => task.status === 'dead',
    send: (task) => ['POST', `tasks/${part(task.id)}/reopen`, {}],
    done: (task) => `${task.name} is back in the queue.`,
  },
  reopen: {
    on: 'task', name: 'Reopen', when: (task) => OVER.includes(task.status) && task.status !== 'dead',
    confirm: (task) => task.status === 'completed' && `Reopen ${task.name}? Its outcome and evidence are removed from the task, and it is done again.`,
    send: (task) => ['POST', `tasks/${part(task.id)}/reopen`, {}],
    done: (task) => `${task.name} is open again.`,
    undo: (task) => task.status === 'skipped' && ['POST', `tasks/${part(task.id)}/skip`, {}],
  },
  assign: {
    on: 'task', name: 'Assign', when: (task) => !OVER.includes(task.status),
    fields: (task) => [{ name: 'agent', label: 'Agent; empty for any', value: task.assigned_to, suggestFrom: 'agents' }],
    send: (task, values) => ['POST', `tasks/${part(task.id)}/assign`, given(values)],
    done: (task, { agent }) => (agent ? `Assigned ${task.name} to ${agent}.` : `Any agent may claim ${task.name}.`),
    undo: (task) => ['POST', `tasks/${part(task.id)}/assign`, given({ agent: task.assigned_to ?? '' })],
  },
  release: {
    on: 'task', name: 'Requeue', when: (task) => task.holder,
    confirm: (task) => `Take ${task.name} away from ${task.holder}? Another agent can claim it then. Work that ${task.holder} has not reported is lost.`,
    fields: () => [reason],
    send: (task, values) => ['POST', `tasks/${part(task.id)}/release`, { force: true, ...given(values) }],
    done: (task) => `${task.name} is back in the queue.`,
  },
  editTask: {
    on: 'task', name: 'Edit', when: (task) => !OVER.includes(task.status),
    fields: taskFields,
    send: (task, values) => ['PATCH', `tasks/${part(task.id)}`, taskChange(valuesOf(taskFields(task)), values)],
    done: (task) => `Changed ${task.name}.`,
    undo: (task, values) => ['PATCH', `tasks/${part(task.id)}`, taskChange(values, valuesOf(taskFields(task)))],
  },
  skip: {
    on: 'task', name: 'Skip', when: (task) => !OVER.includes(task.status) && !task.holder,
    confirm: (task) => `Skip ${task.name}? Tasks that wait for it go on without it.`,
    fields: () => [reason],
    send: (task, values) => ['POST', `tasks/${part(task.id)}/skip`, given(values)],
    done: (task) => `Skipped ${task.name}.`,
    undo: (task) => ['POST', `tasks/${part(task.id)}/reopen`, {}],
  },
  messageHolder: {
    on: 'task', name: 'Message', when: (task) => task.holder,
    fields: () => [{ name: 'body', label: 'Message', type: 'area', isRequired: true }],
    send: (task, values) => ['POST', 'messages', { to: task.holder, task: task.id, ...values }],
    done: (task) => `Sent to ${task.holder}.`,
  },
  start: {
    on: 'workflow', name: 'Start', when: ({ status }) => status === 'ready',
    send: ({ id }) => ['POST', `workflows/${part(id)}/start`, {}],
    done: ({ name }) => `Started ${name}.`,
    undo: ({ id }) => ['POST', `workflows/${part(id)}/pause`, {}],
  },
  pause: {
    on: 'workflow', name: 'Pause', when: ({ status }) => status === 'in_progress',
    send: ({ id }) => ['POST', `workflows/${part(id)}/pause`, {}],
    done: ({ name }) => `Paused ${name}: running tasks go on, no other starts.`,
    undo: ({ id }) => ['POST', `workflows/${part(id)}/resume`, {}],
  },
  resume: {
    on: 'workflow', name: 'Resume', when: ({ status }) => status === 'paused',
    send: ({ id }) => ['POST', `workflows/${part(id)}/resume`, {}],
    done: ({ name }) => `Resumed ${name}.`,
    undo: ({ id }) => ['POST', `workflows/${part(id)}/pause`, {}],
  },
  merged: {
    on: 'workflow', name: 'Mark as merged', when: ({ status }) => status === 'awaiting_merge',
    send: ({ id }) => ['POST', `workflows/${part(id)}/merge`, { merged: true }],
    done: ({ name }) => `${name} is merged.`,
  },
  cancelWorkflow: {
    on: 'workflow', name: 'Cancel workflow', when: ({ status }) => LIVE.includes(status),
    confirm: ({ name }) => `Cancel ${name}? Its open tasks are cancelled, and it cannot be resumed.`,
    fields: () => [reason],
    send: ({ id }, values) => ['POST', `workflows/${part(id)}/cancel`, given(values)],
    done: ({ name }) => `Cancelled ${name}.`,
  },
  addIssue: {
    on: 'ledger', name: 'New issue', when: () => true,
    fields: ({ repos = [] }) => [
      ...issueFields(),
      ...(repos.length > 1 ? [{ name: 'repo', label: 'Repository', options: [['', 'the usual one'], ...repos.map((name) => [name, name])] }] : []),
    ],
    send: (_, { repo, ...values }) => {
      const { remove_labels: _none, ...body } = issueChange({ status: 'open', priority: '2', issue_type: 'task' }, values);
      return ['POST', 'issues', { ...body, ...given({ repo: repo ?? '' }) }];
    },
    done: (_, values, answer) => `Added ${answer.id}: ${answer.title}`,
    undo: (_, values, answer) => ['DELETE', `issues/${part(answer.id)}`, { reason: 'undone' }],
  },
  editIssue: {
    on: 'issue', name: 'Edit', when: () => true,
    fields: issueFields,
    send: (issue, values) => ['PATCH', `issues/${part(issue.id)}`, issueChange(valuesOf(issueFields(issue)), values)],
    done: ({ id }) => `Changed ${id}.`,
    undo: (issue, values) => ['PATCH', `issues/${part(issue.id)}`, issueChange(values, valuesOf(issueFields(issue)))],
  },
  comment: {
    on: 'issue', name: 'Comment', when: () => true,
    fields: () => [{ name: 'text', label: 'Comment', type: 'area', isRequired: true }],
    send: (issue, values) => ['POST', `issues/${part(issue.id)}/comments`, values],
    done: ({ id }) => `Commented on ${id}.`,
  },
  closeIssue: {
    on: 'issue', name: 'Close', when: ({ status }) => status !== 'closed',
    fields: () => [reason],
    send: (issue, values) => ['POST', `issues/${part(issue.id)}/close`, given(values)],
    done: ({ id }) => `Closed ${id}.`,
    undo: ({ id }) => ['POST', `issues/${part(id)}/reopen`, {}],
  },
  reopenIssue: {
    on: 'issue', name: 'Reopen', when: ({ status }) => status === 'closed',
    send: ({ id }) => ['POST', `issues/${part(id)}/reopen`, {}],
    done: ({ id }) => `${id} is open again.`,
    undo: ({ id, close_reason: before }) => ['POST', `issues/${part(id)}/close`, given({ reason: before ?? '' })],
  },
  releaseIssue: {
    on: 'issue', name: 'Release', when: ({ status, assignee }) => status === 'in_progress' && assignee,
    confirm: ({ id, assignee }) => `Take ${id} away from ${assignee}? Another agent can claim it then.`,
    send: ({ id }) => ['POST', `issues/${part(id)}/release`, { force: true }],
    done: ({ id }) => `Released ${id}.`,
  },
  propose: {
    on: 'issue', name: 'Propose', when: ({ visibility, status }, { isPlanned }) => isPlanned && visibility !== 'proposed' && status !== 'closed',
    about: () => 'Copies the issue to the ledger of the project. Commit that ledger together with your change to submit the proposal.',
    fields: () => [],
    send: ({ id }) => ['POST', `issues/${part(id)}/propose`, {}],
    done: ({ id }) => `Proposed ${id}.`,
    undo: ({ id }) => ['POST', `issues/${part(id)}/withdraw`, {}],
  },
  accept: {
    on: 'issue', name: 'Accept', when: ({ visibility, status }) => visibility === 'proposed' && status !== 'closed',
    confirm: ({ id }) => `Accept ${id}? It becomes an issue of the project.`,
    send: ({ id }) => ['POST', `issues/${part(id)}/accept`, {}],
    done: ({ id }) => `Accepted ${id}.`,
  },
  reject: {
    on: 'issue', name: 'Reject', when: ({ visibility, status }) => visibility === 'proposed' && status !== 'closed',
    fields: () => [{ ...reason, isRequired: true }],
    about: () => 'Closes the proposal. Its author sees the reason.',
    send: ({ id }, values) => ['POST', `issues/${part(id)}/reject`, values],
    done: ({ id }) => `Rejected ${id}.`,
    undo: ({ id }) => ['POST', `issues/${part(id)}/reopen`, {}],
  },
  withdraw: {
    on: 'issue', name: 'Withdraw', when: ({ visibility }) => visibility === 'proposed',
    send: ({ id }) => ['POST', `issues/${part(id)}/withdraw`, {}],
    done: ({ id }) => `Withdrew ${id}.`,
    undo: ({ id }) => ['POST', `issues/${part(id)}/propose`, {}],
  },
  removeIssue: {
    on: 'issue', name: 'Delete', when: () => true,
    confirm: ({ id, title }) => `Delete ${id}, ${title}? The ledger keeps only that it existed; its text stays in the history of the repository.`,
    fields: () => [reason],
    send: (issue, values) => ['DELETE', `issues/${part(issue.id)}`, given(values)],
    done: ({ id }) => `Deleted ${id}.`,
  },
  cancelJob: {
    on: 'job', name: 'Cancel job', when: ({ status }) => ['pending', 'running'].includes(status),
    confirm: ({ id }) => `Cancel ${id}? Its command is ended. Its files stay in the workspace.`,
    fields: () => [reason],
    send: ({ id }, values) => ['POST', `jobs/${part(id)}/cancel`, given(values)],
    done: ({ id }) => `Cancelled ${id}.`,
  },
  snapshot: {
    on: 'workspace', name: 'Snapshot', when: ({ status }) => ['kept', 'active'].includes(status),
    send: ({ id }) => ['POST', `workspaces/${part(id)}/snapshot`, {}],
    done: ({ id }, values, answer) => `Saved ${id} as ${answer.id}.`,
  },
  deliver: {
    on: 'workspace', name: 'Deliver', when: ({ status }) => status === 'kept',
    about: () => 'Pushes the branch to the remote of the repository. Without a remote, brings it into the repository itself.',
    fields: ({ branch }) => [
      { name: 'branch', label: 'Branch', value: branch },
      { name: 'commit', label: 'Message, to commit uncommitted changes first' },
      { name: 'local', label: 'Only into the repository on this machine', type: 'check' },
    ],
    send: ({ id }, values) => ['POST', `workspaces/${part(id)}/deliver`, given(values)],
    done: (_, values, answer) => `Delivered ${answer.branch} to ${answer.remote ?? answer.landed_in}.`,
  },
  removeWorkspace: {
    on: 'workspace', name: 'Remove', when: ({ status }) => ['kept', 'lost'].includes(status),
    confirm: ({ id }) => `Remove the directory of ${id}?`,
    fields: () => [{
      name: 'work', label: 'Work that exists nowhere else', value: 'keep',
      options: [['keep', 'refuse to remove it'], ['force', 'save it as a snapshot first'], ['discard', 'let it go, for ever']],
    }],
    send: ({ id }, { work }) => ['DELETE', `workspaces/${part(id)}`, work === 'keep' ? {} : { [work]: true }],
    done: ({ id }, values, answer) => `Removed ${id}.${answer.restored_by ? ` Its work is saved: ${answer.restored_by}` : ''}`,
  },
  message: {
    on: 'agent', name: 'Message', when: ({ retired_at: retired }) => !retired,
    fields: () => [{ name: 'subject', label: 'Subject' }, { name: 'body', label: 'Message', type: 'area', isRequired: true }],
    send: (agent, values) => ['POST', 'messages', { to: agent.name, ...given(values) }],
    done: ({ name }) => `Sent to ${name}.`,
  },
  retire: {
    on: 'agent', name: 'Retire', when: ({ retired_at: retired, role }) => !retired && role !== 'human',
    confirm: ({ name }) => `Retire ${name}? Its claims end, and work that it has not reported is lost.`,
    send: ({ name }) => ['DELETE', `agents/${part(name)}`, {}],
    done: ({ name }) => `${name} has retired.`,
  },
  send: {
    on: 'inbox', name: 'New message', when: () => true,
    fields: () => [
      { name: 'to', label: 'Agent; empty for all', suggestFrom: 'agents' },
      { name: 'subject', label: 'Subject' },
      { name: 'body', label: 'Message', type: 'area', isRequired: true },
    ],
    send: (_, { to, ...values }) => (to ? ['POST', 'messages', { to, ...given(values) }] : ['POST', 'messages/broadcast', given(values)]),
    done: (_, { to }) => (to ? `Sent to ${to}.` : 'Sent to all agents.'),
  },
  acknowledge: {
    on: 'message', name: 'Mark as dealt with', when: ({ isOwn, state }) => isOwn && state === 'read',
    send: ({ id }) => ['POST', 'messages/ack', { messages: [id] }],
    done: () => 'Marked as dealt with.',
  },
  reply: {
    on: 'message', name: 'Reply', when: () => true,
    fields: () => [{ name: 'body', label: 'Reply', type: 'area', isRequired: true }],
    send: ({ id }, values) => ['POST', 'messages', { reply_to: id, ...values }],
    done: () => 'Replied.',
  },
};

/// The ids of the actions that a record permits. Users who may only read have none.
export const permitted = (on, record, context = {}) => (isAdmin.value
  ? Object.keys(ACTIONS).filter((id) => ACTIONS[id].on === on && ACTIONS[id].when(record, context))
  : []);

/// The action that a dialog asks about: its id, its record as it was then, and a number that no other dialog had.
export const asking = signal(null);
let asked = 0;
/// What was refused, and what was done last. Nothing disappears by itself: a person who looked elsewhere would miss it, and the
/// way to undo it. A refusal stays until it is dismissed, what was done until the next is.
export const notices = signal([]);
/// Counts the actions that were performed.
export const performed = signal(0);
const MAX_REFUSALS = 3;

export const dismiss = (notice) => { notices.value = notices.value.filter((one) => one !== notice); };

function notify(notice) {
  const refusals = notices.value.filter(({ error }) => error);
  notices.value = notice.error
    ? [...refusals.slice(1 - MAX_REFUSALS), ...notices.value.filter(({ error }) => !error), notice]
    : [...refusals, notice];
}

async function request([method, path, body]) {
  const answer = await write(path, body, method);
  version.value += 1;
  performed.value += 1;
  return answer;
}

/// Runs an action with the values of its fields. Throws the refusal.
export async function perform(id, record, values = {}) {
  const action = ACTIONS[id];
  // From now on, Undo would seem to be about this action.
  notices.value = notices.value.filter(({ error }) => error);
  const { data, warnings } = await request(action.send(record, values));
  const inverse = action.undo?.(record, values, data ?? {});
  const notice = { text: action.done(record, values, data ?? {}), warnings };
  if (inverse) notice.undo = () => {
    dismiss(notice);
    return request(inverse).then(() => notify({ text: 'Undone.' }), (error) => notify({ error }));
  };
  notify(notice);
}

/// Begins an action: asks first where it needs fields or work could be lost, else runs it.
export function begin(id, record) {
  const { fields, confirm } = ACTIONS[id];
  if (fields || confirm?.(record)) asking.value = { id, record, number: asked += 1 };
  else perform(id, record).catch((error) => notify({ error }));
}
