// Issues of all repositories: filtered, as a tree, added, edited, proposed and accepted.
import { useEffect, useState } from '../vendor/hooks.js';
import { begin, perform, permitted, STATUSES, TYPES } from '../actions.js';
import { Actions, Refusal } from '../dialogs.js';
import { Graph } from '../graph.js';
import { html } from '../html.js';
import { List, useList } from '../list.js';
import { version } from '../live.js';
import { go, link } from '../router.js';
import { scope } from '../scope.js';
import { Age, Chip, Field, Loaded, Row, useRead } from '../ui.js';

/// Ledgers are files: other programs change them without an event of the store.
const POLL_MS = 5000;

const VIEWS = [['', 'Open'], ['ready', 'Ready'], ['blocked', 'Blocked'], ['all', 'All, with closed'], ...STATUSES.slice(1).map((status) => [`=${status}`, status.replace('_', ' ')])];
const VISIBILITIES = [['', 'Any visibility'], ['canonical', 'Accepted'], ['proposed', 'Proposed'], ['local', 'Local']];

export const Issues = ({ subject, query }) => {
  usePolling();
  return subject ? html`<${Issue} id=${subject}/>` : html`<${All} query=${query}/>`;
};

/// The address and the parameters of a list. Lists of ready and blocked issues have fewer filters.
function request({ view = '', type, label, text, visibility, ledger }) {
  const repo = ledger ?? scope.value.repo;
  if (view === 'ready') return ['issues/ready', { types: type, repo }];
  if (view === 'blocked') return ['issues/blocked', { repo }];
  const statuses = view.startsWith('=') ? view.slice(1) : undefined;
  const closed = view === 'all' || statuses === 'closed' || undefined;
  return ['issues', { statuses, closed, types: type, labels: label, text, visibility, repo }];
}

const repoName = ({ source_repo: path }) => (path ?? '').split('/').pop();

/// An issue with the values that the ledger leaves out: other programs write as few fields as they like.
const complete = (issue) => ({ ...issue, status: issue.status ?? 'open', priority: issue.priority ?? 2, issue_type: issue.issue_type ?? 'task' });

/// Repositories that were seen in any answer, so that a filter by one does not hide the others.
const seen = new Set();

function Choice({ label, value = '', options, isDisabled, onChoose }) {
  return html`<select aria-label=${label} disabled=${isDisabled} value=${value} onChange=${(event) => onChoose(event.target.value)}>
    ${options.map(([key, name]) => html`<option value=${key} selected=${key === value}>${name}</option>`)}</select>`;
}

function usePolling() {
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) version.value += 1; }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
}

function All({ query }) {
  const [path, parameters] = request(query);
  const list = useList(path, parameters, { kinds: ['issue', 'task.completed'] });
  const issueOf = (one) => complete(one.issue ? { ...one.issue, reasons: one.reasons } : one);
  const entries = list.rows.map(issueOf);
  entries.forEach((issue) => seen.add(repoName(issue)));
  const repos = [...seen].filter(Boolean).sort();
  const [text, setText] = useState(query.text ?? '');
  const [label, setLabel] = useState(query.label ?? '');
  const choose = (change) => go('issues', '', { ...query, ...change });
  const search = (event) => { event.preventDefault(); choose({ text, label }); };
  const [isReady, isBlocked] = [query.view === 'ready', query.view === 'blocked'];
  const isFiltered = Object.values(query).some(Boolean);
  return html`<h1>Issues</h1><${QuickAdd} repos=${repos} repo=${query.ledger}/>
    <form class="filter" role="search" onSubmit=${search}>
      <input type="search" aria-label="Search issues" placeholder="Search, then Enter" value=${text} data-filter disabled=${isReady || isBlocked}
        onInput=${(event) => setText(event.target.value)}/>
      <${Choice} label="Status" value=${query.view} options=${VIEWS} onChoose=${(view) => choose({ view })}/>
      <${Choice} label="Type" value=${query.type} isDisabled=${isBlocked} onChoose=${(type) => choose({ type })}
        options=${[['', 'Any type'], ...[...new Set([...TYPES, ...entries.map((one) => one.issue_type).filter(Boolean)])].map((type) => [type, type])]}/>
      <input class="short" aria-label="Label" placeholder="Label" value=${label} disabled=${isReady || isBlocked}
        onInput=${(event) => setLabel(event.target.value)}/>
      <${Choice} label="Visibility" value=${query.visibility} isDisabled=${isReady || isBlocked} options=${VISIBILITIES} onChoose=${(visibility) => choose({ visibility })}/>
      ${(repos.length > 1 || query.ledger) && html`<${Choice} label="Ledger" value=${query.ledger} onChoose=${(ledger) => choose({ ledger })}
        options=${[['', 'All ledgers'], ...repos.map((name) => [name, name])]}/>`}
      <button>Filter</button>
      ${isFiltered && html`<a href=${link('issues')} onClick=${() => { setText(''); setLabel(''); }}>Clear</a>`}
    </form>
    ${(list.answer?.warnings ?? []).map((warning) => html`<div class="note wait" key=${warning}>${warning}</div>`)}
    <${List} list=${list} none=${isFiltered ? 'No issue matches.' : 'No issue is open. Add one above, or with way add TITLE.'} arrange=${() => tree(entries)} row=${({ issue, depth, isApart }) => html`
      <${Row} key=${issue.id} href=${link('issues', issue.id)}>
        <${Chip} word=${issue.status}/><span class="id indent-${Math.min(depth, 6)}">${depth > 0 && html`<span class="dim" aria-hidden="true">└ </span>`}${issue.id}</span>
        <span class="reason title">${issue.title}${isApart && html` <span class="dim">in ${issue.parent_id}</span>`}
          ${issue.reasons && html` <span class="dim">${issue.reasons.join(', ')}</span>`}</span>
        ${(issue.labels ?? []).map((one) => html`<span class="label" key=${one}>${one}</span>`)}
        ${issue.visibility && html`<span class="label wait">${issue.visibility}</span>`}
        ${repos.length > 1 && html`<span class="dim repo">${repoName(issue)}</span>`}
        <span class="dim kind">${issue.issue_type}</span><span class="dim">P${issue.priority}</span>
        <${Age} of=${issue.updated_at}/>
      <//>`}/>`;
}

/// Puts children below their parents. Issues whose parent is not in the list say which one it is.
function tree(issues) {
  const known = new Map(issues.map((issue) => [issue.id, issue]));
  const children = new Map();
  const roots = [];
  for (const issue of issues) {
    const parent = issue.parent_id;
    if (parent && known.has(parent)) children.set(parent, [...(children.get(parent) ?? []), issue]);
    else roots.push(issue);
  }
  const rows = [];
  const placed = new Set();
  const place = (issue, depth) => {
    if (placed.has(issue.id)) return;
    placed.add(issue.id);
    rows.push({ issue, depth, isApart: depth === 0 && issue.parent_id });
    (children.get(issue.id) ?? []).forEach((child) => place(child, depth + 1));
  };
  roots.forEach((issue) => place(issue, 0));
  // Parents in a circle have no root.
  issues.forEach((issue) => place(issue, 0));
  return rows;
}

/// A new issue from a title; the dialog has all fields.
function QuickAdd({ repos, repo }) {
  const [title, setTitle] = useState('');
  const [error, setError] = useState();
  if (permitted('ledger', {}).length === 0) return null;
  const submit = async (event) => {
    event.preventDefault();
    try {
      await perform('addIssue', {}, { title, repo });
      // The next title may be typed already.
      setTitle((typed) => (typed === title ? '' : typed));
      setError();
    } catch (refusal) {
      setError(refusal);
    }
  };
  return html`<form class="inline" onSubmit=${submit}>
    <input aria-label="Title of a new issue" placeholder="New issue, then Enter" required value=${title} onInput=${(event) => setTitle(event.target.value)}/>
    <button class="main">Add</button><button type="button" onClick=${() => begin('addIssue', { repos })}>With details</button>
    ${error && html`<${Refusal} error=${error}/>`}</form>`;
}

const Linked = ({ ids }) => ids.map((id, at) => html`${at > 0 && ', '}<a href=${link('issues', id)}>${id}</a>`);

function Issue({ id }) {
  const state = useRead(`issues/${encodeURIComponent(id)}/explain`);
  const { answer: known } = useRead('repositories');
  // Issues of a repository without a store here, or of several repositories, can be proposed from one to another.
  const isPlanned = ({ source_repo: path }) => (known?.data ?? []).length > 1 || (known?.data ?? []).every((one) => one.path !== path);
  return html`<p class="crumbs"><a href=${link('issues')}>Issues</a></p><${Loaded} state=${state} title=${id}>${({ data }) => {
    const { ready, reasons, waiting, parts } = data;
    const issue = complete(data.issue);
    const of = (kind) => (issue.dependencies ?? []).filter(({ type }) => type === kind).map(({ depends_on_id: on }) => on);
    return html`<h1>${issue.title} <${Chip} word=${issue.status}/></h1>
      <p class="actions"><${Actions} on="issue" of=${issue} context=${{ isPlanned: isPlanned(issue) }}/></p>
      <dl><${Field} name="Id">${issue.id}<//><${Field} name="Type">${issue.issue_type}<//>
        <${Field} name="Priority">P${issue.priority}<//><${Field} name="Assignee">${issue.assignee}<//>
        <${Field} name="Labels">${(issue.labels ?? []).join(', ')}<//>
        <${Field} name="Visibility">${issue.visibility}<//><${Field} name="Repository">${issue.source_repo}<//>
        <${Field} name="Parent">${issue.parent_id && html`<${Linked} ids=${[issue.parent_id]}/>`}<//>
        <${Field} name="Parts">${parts.length > 0 && html`<${Linked} ids=${parts}/>`}<//>
        <${Field} name="Blocked by">${of('blocks').length > 0 && html`<${Linked} ids=${of('blocks')}/>`}<//>
        <${Field} name="Blocks">${waiting.length > 0 && html`<${Linked} ids=${waiting}/>`}<//>
        <${Field} name="Ready">${ready ? 'yes' : reasons.join(', ') || 'no'}<//>
        <${Field} name="Closed because">${issue.close_reason}<//>
        <${Field} name="Author">${issue.created_by}<//></dl>
      ${issue.description && html`<p class="text">${issue.description}</p>`}
      ${issue.acceptance_criteria && html`<h2>Done when</h2><p class="text">${issue.acceptance_criteria}</p>`}
      ${issue.design && html`<h2>Design</h2><p class="text">${issue.design}</p>`}
      ${issue.notes && html`<h2>Notes</h2><p class="text">${issue.notes}</p>`}
      <${Dependencies} id=${issue.id}/>
      ${(issue.comments ?? []).length > 0 && html`<h2>Comments</h2><ol class="plain">${issue.comments.map((one) => html`
        <li key=${one.id}><b>${one.author}</b> <${Age} of=${one.created_at}/><p class="text">${one.text}</p></li>`)}</ol>`}`;
  }}<//>`;
}

/// What the issue waits for and consists of, if there is anything.
function Dependencies({ id }) {
  const state = useRead('graph', { subject: id, repo: scope.value.repo });
  const [chosen, choose] = useState();
  const graph = state.answer?.data;
  if (graph?.nodes.length === 1) return null;
  const byId = new Map(graph?.nodes.map((node) => [node.id, node]));
  return html`<h2>Dependencies</h2><${Loaded} state=${state}>${() => html`<${Graph} graph=${graph} chosen=${chosen} choose=${choose}
    state=${(one) => ({ state: byId.get(one).state, words: byId.get(one).status.replaceAll('_', ' ') })} open=${(one) => go('issues', one)}
    label="Dependencies of ${id}, left to right"/>`}<//>`;
}
