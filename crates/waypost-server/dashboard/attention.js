// What needs the person, on every screen: the title and the icon of the tab count it, and the desktop shows it on request.
import { useEffect, useRef } from './vendor/hooks.js';
import { signal } from './vendor/signals.js';
import { html } from './html.js';
import { useRead } from './ui.js';

const KEY = 'waypost-notices';

/// The number of things that need a person.
export const waiting = signal(0);
/// Whether the desktop shows what becomes new: `off`, `on`, or `denied` by the browser.
const notices = signal('Notification' in window && Notification.permission === 'granted' && localStorage.getItem(KEY) === 'on' ? 'on' : 'off');

async function toggle() {
  if (notices.value === 'on') {
    localStorage.removeItem(KEY);
    notices.value = 'off';
    return;
  }
  const permission = await Notification.requestPermission();
  notices.value = permission === 'granted' ? 'on' : 'denied';
  if (permission === 'granted') localStorage.setItem(KEY, 'on');
}

export const NoticeButton = () => 'Notification' in window && html`<button type="button" class="quiet" aria-pressed=${notices.value === 'on'}
  disabled=${notices.value === 'denied'} onClick=${toggle}
  title=${notices.value === 'denied' ? 'The browser does not permit notices of this page' : 'Show a desktop notice when something needs you'}>
  ${{ on: 'Notices are on', off: 'Notify me', denied: 'Notices are blocked' }[notices.value]}</button>`;

function showIcon(total) {
  const icon = document.querySelector('link[rel=icon]');
  icon.dataset.plain ??= icon.getAttribute('href');
  const name = total > 9 ? 'many' : total;
  icon.setAttribute('href', total ? icon.dataset.plain.replace(/icon\.svg$/, `icon-${name}.svg`) : icon.dataset.plain);
}

/// Keeps the count, the title and the icon of the tab up to date.
export function Attention({ title }) {
  const { answer } = useRead('status', { limit: 20 });
  const group = answer?.data.groups.find((one) => one.group === 'needs_you');
  const total = group?.total ?? 0;
  const known = useRef();
  useEffect(() => {
    waiting.value = total;
    showIcon(total);
  }, [total]);
  useEffect(() => { document.title = `${total ? `(${total}) ` : ''}${title} · Waypost`; }, [total, title]);
  useEffect(() => {
    if (!group) return;
    // The first answer is not news.
    const fresh = known.current ? group.rows.filter(({ id, since }) => !known.current.has(`${id} ${since}`)) : [];
    known.current = new Set(group.rows.map(({ id, since }) => `${id} ${since}`));
    if (notices.value !== 'on') return;
    fresh.forEach(({ id, name, chip, reason }) => {
      const notice = new Notification(`${name}: ${chip}`, { body: reason, tag: id });
      notice.onclick = () => window.focus();
    });
  }, [group]);
  return null;
}
