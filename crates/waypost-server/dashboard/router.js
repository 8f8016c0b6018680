// Addresses: the part after # names the screen and its subject, so that every screen has a deep link and Back works.
// It takes the code of a login out of the address, before the address is read here.
import './session.js';
import { computed, signal } from './vendor/signals.js';

const read = () => location.hash.replace(/^#\/?/, '') || 'now';

const path = signal(read());
addEventListener('hashchange', () => { path.value = read(); });

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    // A % that the user typed.
    return text;
  }
};

/// The current address, and the screen, its subject and the parameters in it.
export const route = computed(() => {
  const [where, query = ''] = path.value.split(/\?(.*)/s);
  const [screen, ...subject] = where.split('/');
  return { address: path.value, screen: decode(screen), subject: subject.map(decode).join('/'), query: Object.fromEntries(new URLSearchParams(query)) };
});

/// The filters that stay when the screen changes.
const KEPT = ['repo', 'worktree'];

/// Returns an address. The filters of the current one stay, unless the parameters say otherwise.
export const link = (screen, subject, query) => {
  const kept = KEPT.map((name) => [name, route.value.query[name]]);
  const all = { ...Object.fromEntries(kept), ...query };
  const text = new URLSearchParams(Object.entries(all).filter(([, value]) => value)).toString();
  return `#/${screen}${subject ? `/${encodeURIComponent(subject)}` : ''}${text && `?${text}`}`;
};

export const go = (...where) => { location.hash = link(...where); };

/// Changes parameters of the current address. Back undoes it, unless it replaces the address.
export function refine(query, isReplacing = false) {
  const { screen, subject, query: before } = route.value;
  const address = link(screen, subject, { ...before, ...query });
  if (!isReplacing) location.hash = address;
  else {
    history.replaceState(null, '', address);
    path.value = read();
  }
}
