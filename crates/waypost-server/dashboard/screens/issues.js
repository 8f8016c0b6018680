// Issues: the ledger, filtered by words and by whether they can be started, and one issue.
import { useState } from '../vendor/hooks.js';
import { html } from '../html.js';
import { go, link } from '../router.js';
import { Age, Chip, Empty, Field, Loaded, More, Row, usePages, useRead } from '../ui.js';

const VIEWS = { open: 'Open', ready: 'Ready', blocked: 'Blocked', all: 'With closed' };

export const Issues = ({ subject, query }) => (subject
  ? html`<${Issue} id=${subject}/>`
  : html`<${List} query=${query}/>`);

function request({ view = 'open', text }) {
  if (text) return ['issues/search', { text }];
  if (view === 'ready' || view === 'blocked') return [`issues/${view}`, {}];
  return ['issues', { closed: view === 'all' || undefined }];
}

function List({ query }) {
  const [path, parameters] = request(query);
  const pages = usePages(path, parameters);
  const [text, setText] = useState(query.text ?? '');
  const search = (event) => { event.preventDefault(); go('issues', '', { ...query, text }); };
  return html`<h1>Issues</h1>
    <form class="filter" role="search" onSubmit=${search}>
      <input type="search" aria-label="Search issues" placeholder="Search, then Enter" value=${text} data-filter
        onInput=${(event) => setText(event.target.value)}/>
      <span class="tabs">${Object.entries(VIEWS).map(([view, name]) => html`
        <a href=${link('issues', '', { view })} aria-current=${!query.text && (query.view ?? 'open') === view ? 'page' : undefined}>${name}</a>`)}</span>
    </form>
    <${Loaded} state=${pages.state}>${(answer) => html`
      <div class="rows">${answer.data.map((issue) => html`
        <${Row} key=${issue.id} href=${link('issues', issue.id)}>
          <${Chip} word=${issue.status}/><span class="id">${issue.id}</span>
          <span class="reason title">${issue.title}</span><span class="dim">P${issue.priority}</span>
          <${Age} of=${issue.updated_at}/>
        <//>`)}</div>
      ${answer.data.length === 0 && html`<${Empty}>No issue matches.<//>`}
      <${More} pages=${pages} answer=${answer}/>`}<//>`;
}

function Issue({ id }) {
  const state = useRead(`issues/${encodeURIComponent(id)}`);
  return html`<p class="crumbs"><a href=${link('issues')}>Issues</a></p><${Loaded} state=${state}>${({ data }) => {
    const issue = data.issue ?? data;
    return html`<h1>${issue.title} <${Chip} word=${issue.status}/></h1>
      <dl><${Field} name="Id">${issue.id}<//><${Field} name="Type">${issue.issue_type}<//>
        <${Field} name="Priority">P${issue.priority}<//><${Field} name="Assignee">${issue.assignee}<//>
        <${Field} name="Labels">${(issue.labels ?? []).join(', ')}<//></dl>
      <p class="text">${issue.description}</p>
      ${issue.acceptance_criteria && html`<h2>Done when</h2><p class="text">${issue.acceptance_criteria}</p>`}
      ${(issue.comments ?? []).length > 0 && html`<h2>Comments</h2><ol class="plain">${issue.comments.map((one) => html`
        <li><b>${one.author}</b> <${Age} of=${one.created_at}/><p class="text">${one.text}</p></li>`)}</ol>`}`;
  }}<//>`;
}
