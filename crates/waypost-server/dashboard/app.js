// The page: navigation, keys, login, and the screen that the address names.
import { useEffect, useErrorBoundary, useRef, useState } from './vendor/hooks.js';
import { options, render } from './vendor/preact.js';
import { Attention, NoticeButton, waiting } from './attention.js';
import { Dialog, Notices } from './dialogs.js';
import { html } from './html.js';
import { connection, follow, nextFrame } from './live.js';
import { isOpen as isPaletteOpen, Palette } from './palette.js';
import { go, link, route } from './router.js';
import { Scope } from './scope.js';
import { Issues } from './screens/issues.js';
import { Jobs } from './screens/jobs.js';
import { Agents, Events, Repositories } from './screens/lists.js';
import { Messages } from './screens/messages.js';
import { Now } from './screens/now.js';
import { Task } from './screens/task.js';
import { Workflows } from './screens/workflows.js';
import { Workspaces } from './screens/workspaces.js';
import { login, logout, needsLogin, problem } from './session.js';
import { age } from './ui.js';

/// However many events come, the page is drawn at most once per frame.
options.debounceRendering = nextFrame;
/// What the user does is drawn at once: the next key may depend on it.
for (const kind of ['keydown', 'input', 'change', 'click', 'submit']) {
  addEventListener(kind, () => {
    options.debounceRendering = undefined;
    setTimeout(() => { options.debounceRendering = nextFrame; });
  }, true);
}

/// The screens in the navigation: address, name, key after g, component.
const SCREENS = [
  ['now', 'Now', 'n', Now],
  ['workflows', 'Workflows', 'w', Workflows],
  ['issues', 'Issues', 'i', Issues],
  ['agents', 'Agents', 'a', Agents],
  ['messages', 'Messages', 'm', Messages],
  ['workspaces', 'Workspaces', 's', Workspaces],
  ['jobs', 'Jobs', 'j', Jobs],
  ['events', 'Events', 'e', Events],
  ['repositories', 'Repositories', 'r', Repositories],
];

function Screen() {
  const { screen, subject, query } = route.value;
  if (screen === 'task') return html`<${Task} key=${subject} subject=${subject}/>`;
  const found = SCREENS.find(([address]) => address === screen);
  if (!found) return html`<h1>No such page</h1><p>There is no screen ${screen}. <a href=${link('now')}>Now</a> shows what needs you.</p>`;
  const [, , , Component] = found;
  return html`<${Component} key=${`${screen}/${subject}`} subject=${subject} query=${query}/>`;
}

/// A screen that fails says so, and the others go on.
function Guarded({ children }) {
  const [error, reset] = useErrorBoundary();
  if (!error) return children;
  return html`<div class="problem" role="alert"><strong>This screen cannot be shown: ${error.message}</strong>
    <p><button type="button" onClick=${reset}>Try again</button></p></div>`;
}

function Navigation() {
  const { screen } = route.value;
  // On a phone the tabs are wider than the page.
  useEffect(() => { document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }); }, [screen]);
  return html`<nav aria-label="Screens"><a class="brand" href=${link('now')}>Waypost</a>
    ${SCREENS.map(([address, name]) => html`<a class="tab" href=${link(address)} aria-current=${screen === address ? 'page' : undefined}>
      ${name}${address === 'now' && waiting.value > 0 && html` <span class="count" aria-label="${waiting.value} need you">${waiting.value}</span>`}</a>`)}
    <button type="button" class="quiet" onClick=${logout}>Log out</button></nav>`;
}

function Bar() {
  const { state } = connection.value;
  return html`<header class="bar"><${Scope}/>
    <button type="button" class="find" onClick=${() => { isPaletteOpen.value = true; }}>Go to… <kbd>Ctrl K</kbd></button>
    <${NoticeButton}/><span class="link ${state}" role="status">${{ live: 'Live', connecting: 'Connecting…', lost: 'Connection lost' }[state]}</span></header>`;
}

/// Says how old the data is while the connection is lost.
const Connection = () => connection.value.state === 'lost' && html`<div class="state" role="status">
  The connection is lost: this is as it was ${age(connection.value.since)} ago. Reconnecting…</div>`;

function Login() {
  const [token, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    login({ token: token.trim() });
  };
  return html`<main class="login"><h1>Waypost</h1>
    ${problem.value && html`<div class="problem" role="alert">${problem.value}</div>`}
    <form onSubmit=${submit}><p><label for="token">Token</label></p>
      <p><input id="token" type="password" autocomplete="off" required value=${token} onInput=${(event) => setText(event.target.value)}/>
        <button>Log in</button></p></form>
    <p class="dim">Your token is in <code>~/.waypost/token</code>. <code>way serve --open</code> prints an address that logs in
      once without it. The browser does not keep the token.</p></main>`;
}

const KEYS = [['j, k', 'next and previous row'], ['Enter', 'open the row'], ['/', 'search'], ['Ctrl K', 'go to anything'], ['?', 'these keys'], ['Esc', 'close, clear the spotlight'],
  ...SCREENS.map(([, name, key]) => [`g ${key}`, name])];

/// Handles keys. Those that are typed into a field, or with a modifier, belong to the browser.
function useKeys(showHelp) {
  const isAfterG = useRef(false);
  useEffect(() => {
    const press = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        isPaletteOpen.value = true;
        event.preventDefault();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, dialog')) return;
      const wasAfterG = isAfterG.current;
      isAfterG.current = event.key === 'g';
      const screen = wasAfterG && SCREENS.find(([, , key]) => key === event.key);
      if (screen) go(screen[0]);
      else if (event.key === 'j' || event.key === 'k') move(event.key === 'j' ? 1 : -1);
      else if (event.key === '?') showHelp();
      else if (event.key === '/') (document.querySelector('[data-filter]') ?? { focus: () => go('issues') }).focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function move(by) {
  const rows = [...document.querySelectorAll('[data-row]')];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

function App() {
  const help = useRef();
  useKeys(() => help.current?.showModal());
  const { screen, subject } = route.value;
  const title = SCREENS.find(([address]) => address === screen)?.[1] ?? screen;
  if (needsLogin.value) return html`<${Login}/>`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('main').focus(); }}>Skip to content</a>
    <${Attention} title=${title}/><${Connection}/><div class="page"><${Navigation}/><div class="body"><${Bar}/>
      <main id="main" tabindex="-1" data-address=${route.value.address}><${Guarded} key=${`${screen}/${subject}`}><${Screen}/><//></main></div></div><${Palette} screens=${SCREENS}/><${Dialog}/><${Notices}/>
    <dialog ref=${help} aria-label="Keys"><h1>Keys</h1><dl>${KEYS.map(([key, what]) => html`<dt><code>${key}</code></dt><dd>${what}</dd>`)}</dl>
      <form method="dialog"><button>Close</button></form></dialog>`;
}

render(html`<${App}/>`, document.getElementById('app'));
follow();
