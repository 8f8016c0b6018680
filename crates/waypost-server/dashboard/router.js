// Addresses: the part after # names the screen and its subject, so that every screen has a deep link and Back works.
import { computed, signal } from './vendor/signals.js';

const read = () => location.hash.replace(/^#\/?/, '') || 'now';

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const path = signal(read());
addEventListener('hashchange', () => { path.value = read(); });

/// The screen, its subject, and the parameters of the current address.
export const route = computed(() => {
  const [where, query = ''] = path.value.split('?');
  const [screen, ...subject] = where.split('/').map(decode);
  return { screen, subject: subject.join('/'), query: Object.fromEntries(new URLSearchParams(query)) };
});

export const link = (screen, subject, query) => {
  const text = new URLSearchParams(Object.entries(query ?? {}).filter(([, value]) => value)).toString();
  return `#/${screen}${subject ? `/${encodeURIComponent(subject)}` : ''}${text && `?${text}`}`;
};

export const go = (...where) => { location.hash = link(...where); };
