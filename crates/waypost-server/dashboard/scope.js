// The filter by repository and worktree: in the address, so that it holds on every screen, in links and after Back.
import { useEffect } from './vendor/hooks.js';
import { computed, signal } from './vendor/signals.js';
import { html } from './html.js';
import { refine, route } from './router.js';
import { useRead } from './ui.js';

/// The repositories and worktrees of the store.
const known = signal({ repositories: [], worktrees: [] });

/// The filter: ids, or nothing.
export const scope = computed(() => {
  const { repo, worktree } = route.value.query;
  return { repo, worktree };
});

/// Returns whether a record belongs to the filter, by its worktree. For lists that the server cannot filter by repository.
export function isInScope(worktreeId) {
  const { repo, worktree } = scope.value;
  if (worktree) return worktreeId === worktree;
  return !repo || known.value.worktrees.find(({ id }) => id === worktreeId)?.repository_id === repo;
}

/// The name of a worktree, with its repository where there are several. Nothing if there is only one worktree.
export function worktreeName(id) {
  const { repositories, worktrees } = known.value;
  if (worktrees.length < 2) return undefined;
  const found = worktrees.find((one) => one.id === id);
  const repository = repositories.length > 1 && repositories.find((one) => one.id === found?.repository_id);
  return found && `${repository ? `${repository.name}/` : ''}${found.name}`;
}

const isPlace = ({ kind }) => kind.startsWith('repository.') || kind.startsWith('worktree.');

export function Scope() {
  const { answer } = useRead('worktrees', { limit: 1000 }, isPlace);
  useEffect(() => { if (answer) known.value = answer.data; }, [answer]);
  const { repo, worktree } = scope.value;
  const here = known.value.worktrees.filter((one) => (!repo || one.repository_id === repo) && (!one.removed_at || one.id === worktree));
  const choose = (query) => (event) => refine(query(event.target.value || undefined));
  const select = (label, all, value, options, query) => html`<label class="choice"><span class="away">${label}</span>
    <select aria-label=${label} data-is-set=${Boolean(value)} value=${value ?? ''} onChange=${choose(query)}>
      <option value="">${all}</option>
      ${value && !options.some(({ id }) => id === value) && html`<option value=${value}>${value}</option>`}
      ${options.map(({ id, name }) => html`<option key=${id} value=${id} selected=${id === value}>${name}</option>`)}
    </select></label>`;
  return html`<div class="scope" role="group" aria-label="Filter">
    ${select('Repository', 'All repositories', repo, known.value.repositories, (id) => ({ repo: id, worktree: undefined }))}
    ${select('Worktree', 'All worktrees', worktree, here, (id) => ({ worktree: id }))}
    ${(repo || worktree) && html`<button type="button" class="quiet" onClick=${() => refine({ repo: undefined, worktree: undefined })}>Clear</button>`}</div>`;
}
