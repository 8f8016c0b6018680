// Messages: the inbox of the person, the conversations of all agents, and one conversation.
import { useEffect } from '../vendor/hooks.js';
import { ask, isAdmin, write } from '../api.js';
import { Actions } from '../dialogs.js';
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { link } from '../router.js';
import { isInScope, scope } from '../scope.js';
import { Age, Chip, Empty, Field, Loaded, Row, useRead } from '../ui.js';

const isMessage = ({ kind }) => kind.startsWith('message.');
const WAITING = ['queued', 'presented'];

export const Messages = ({ subject, query }) => (subject
  ? html`<${Thread} id=${subject} isOwn=${Boolean(query.inbox)}/>`
  : html`<h1>Messages</h1><p class="actions"><${Actions} on="inbox" of=${{}}/></p><${Tabs} view=${query.view}/>${query.view === 'all' ? html`<${All}/>` : html`<${Inbox}/>`}`);

const Tabs = ({ view = 'inbox' }) => html`<p class="tabs">${[['inbox', 'Your inbox'], ['all', 'All agents']].map(([one, name]) => html`
  <a href=${link('messages', '', { view: one === 'inbox' ? undefined : one })} aria-current=${view === one ? 'page' : undefined}>${name}</a>`)}</p>`;

function Inbox() {
  const state = useRead(isAdmin.value ? 'inbox/list' : undefined, { peek: true, limit: 1000 }, isMessage, ask);
  if (!isAdmin.value) return html`<${Empty}>A token that may only read has no inbox. <a href=${link('messages', '', { view: 'all' })}>All agents</a> shows the messages between agents.<//>`;
  return html`<${Loaded} state=${state}>${({ data }) => html`
    ${data.messages.length === 0 && html`<${Empty}>No message waits for you.<//>`}
    <div class="rows">${data.messages.map((one) => html`<${Row} key=${one.id} href=${link('messages', one.id, { inbox: 1 })} isNew=${WAITING.includes(one.state)}>
      <${Chip} word=${WAITING.includes(one.state) ? 'unread' : one.state}/><span class="name">${one.from}</span>
      <span class="reason"><b>${one.subject || one.body.split('\n')[0]}</b>${one.subject && ` ${one.body.split('\n')[0]}`}</span>
      ${one.priority !== 'normal' && html`<span class="dim">${one.priority}</span>`}<${Age} of=${one.created_at}/><//>`)}</div>
    ${data.unread > data.messages.length && html`<p class="more">The first ${data.messages.length} of ${data.unread} are shown.</p>`}`}<//>`;
}

/// Every message that was sent, from the history: their texts are in the conversations.
function All() {
  const { worktree } = scope.value;
  const list = useList('events', { kind: 'message.sent', worktree_id: worktree }, { kinds: ['message.sent'], add: (event) => event });
  return html`<${List} list=${list} none="No message was sent yet." keep=${({ worktree_id: id }) => isInScope(id)} row=${(event) => html`
    <${Row} key=${event.sequence} href=${link('messages', event.subject)}>
      <${Chip} word=${event.data.type ?? 'message'}/><span class="name">${event.actor}</span>
      <span class="reason">${event.data.subject || 'without a subject'}</span><${Age} of=${event.time}/><//>`}/>`;
}

function Thread({ id, isOwn }) {
  const state = useRead(`messages/${encodeURIComponent(id)}/thread`, { limit: 1000 }, isMessage);
  const messages = state.answer?.data.messages ?? [];
  const chosen = messages.find((one) => one.id === id);
  const unread = isOwn && chosen && WAITING.includes(chosen.state) && chosen;
  // Opening a message of one's own inbox marks it as read.
  useEffect(() => { if (isAdmin.value && unread) write(`messages/${unread.id}/read`, {}).catch(() => {}); }, [unread && unread.id, isAdmin.value]);
  return html`<p class="crumbs"><a href=${link('messages')}>Messages</a></p><${Loaded} state=${state} title=${id}>${() => html`
    <h1>${messages[0]?.subject || 'Conversation'}</h1>
    <ol class="thread">${messages.map((one) => html`<li key=${one.id} class=${one.id === id ? 'chosen' : ''}>
      <p class="facts"><b>${one.from}</b><span class="dim">to</span><b>${one.to}</b>
        <${Chip} word=${WAITING.includes(one.state) ? 'unread' : one.state}/><${Age} of=${one.created_at}/></p>
      <p class="text">${one.body}</p>
      <dl><${Field} name="Task">${one.task_id && html`<a href=${link('task', one.task_id)}>${one.task_id}</a>`}<//></dl></li>`)}</ol>
    ${chosen && html`<p class="actions"><${Actions} on="message" of=${{ ...chosen, isOwn }}/></p>`}`}<//>`;
}
