// The template tag that all components use. Preact escapes every value: nothing here ever sets HTML from data.
import htm from './vendor/htm.js';
import { h } from './vendor/preact.js';

export const html = htm.bind(h);
