// The drawing of a graph of dependencies. The server lays it out; a change of status only recolours it.
import { useEffect, useMemo, useRef, useState } from './vendor/hooks.js';
import { html } from './html.js';

const BOX = { width: 158, height: 40 };
const STEP = { x: 200, y: 54 };
const MARGIN = 14;
const MAX_CHARS = 20;
const SCALES = [0.4, 0.55, 0.75, 1, 1.25];

const corner = (layer, row) => [MARGIN + layer * STEP.x, MARGIN + row * STEP.y];
const short = (text) => (text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS - 1)}…` : text);

/// The line of an edge, through its bends.
function line({ from, to, bends }, places) {
  const middle = (layer, row) => {
    const [x, y] = corner(layer, row);
    return [x, y + BOX.height / 2];
  };
  const start = middle(...places.get(from));
  let at = [start[0] + BOX.width, start[1]];
  let path = `M${at}`;
  const curve = ([x, y]) => { path += ` C${at[0] + 22},${at[1]} ${x - 22},${y} ${x},${y}`; };
  for (const [layer, row] of bends) {
    const bend = middle(layer, row);
    curve(bend);
    at = [bend[0] + BOX.width, bend[1]];
    path += ` H${at[0]}`;
  }
  curve(middle(...places.get(to)));
  return path;
}

/// All nodes that one waits for, and all that wait for it, with itself.
export function related(edges, id) {
  const reach = (one, other) => {
    const found = new Set([id]);
    const next = new Map();
    edges.forEach((edge) => next.set(edge[one], [...(next.get(edge[one]) ?? []), edge[other]]));
    for (const node of found) (next.get(node) ?? []).forEach((neighbour) => found.add(neighbour));
    return found;
  };
  return new Set([...reach('to', 'from'), ...reach('from', 'to')]);
}

/// `state` tells how far a node is, and its status in words. `chosen` is the node in the spotlight.
export function Graph({ graph, state, chosen, choose, open, label }) {
  const [scale, setScale] = useState(3);
  const box = useRef();
  const places = useMemo(() => new Map(graph.nodes.map(({ id, layer, row }) => [id, [layer, row]])), [graph]);
  const lines = useMemo(() => graph.edges.map((edge) => ({ ...edge, path: line(edge, places) })), [graph]);
  const lit = useMemo(() => chosen && places.has(chosen) && related(graph.edges, chosen), [graph, chosen]);
  const [width, height] = [graph.layers, graph.rows].map((count, axis) => (
    2 * MARGIN + Math.max(0, count - 1) * [STEP.x, STEP.y][axis] + [BOX.width, BOX.height][axis]));
  // A graph that hardly fits is drawn smaller at first.
  useEffect(() => {
    const room = box.current.clientWidth;
    const fitting = SCALES.findLastIndex((factor) => width * factor <= room && factor <= 1);
    setScale(Math.max(fitting, 2));
  }, [width]);
  useEffect(() => {
    if (!lit) return;
    const [x, y] = corner(...places.get(chosen)).map((place) => place * SCALES[scale]);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = box.current;
    if (x < scrollLeft || x + BOX.width > scrollLeft + clientWidth) box.current.scrollLeft = x - clientWidth / 2;
    if (y < scrollTop || y + BOX.height > scrollTop + clientHeight) box.current.scrollTop = y - clientHeight / 2;
  }, [chosen, lit]);
  const node = ({ id, name, layer, row, is_critical: isCritical }) => {
    const [x, y] = corner(layer, row);
    const { state: kind, words } = state(id);
    const classes = ['node', kind, isCritical && 'critical', lit && (lit.has(id) ? 'lit' : 'away'), id === chosen && 'chosen'];
    const press = (event) => {
      if (event.key === 'Enter') open(id);
      else if (event.key === ' ') choose(id);
      else return;
      event.preventDefault();
    };
    return html`<g key=${id} class=${classes.filter(Boolean).join(' ')} tabindex="0" role="button" data-node=${name}
        aria-pressed=${id === chosen}
        onClick=${(event) => { event.stopPropagation(); if (id === chosen) open(id); else choose(id); }} onKeyDown=${press}
        onFocus=${(event) => { if (event.target.matches(':focus-visible')) choose(id); }}>
      <title>${name}: ${words}${isCritical ? ', on the critical path' : ''}</title>
      <rect x=${x} y=${y} width=${BOX.width} height=${BOX.height} rx="6"/><rect class="mark" x=${x} y=${y} width="4" height=${BOX.height} rx="2"/>
      <text x=${x + 13} y=${y + 17}>${short(name)}</text><text class="status" x=${x + 13} y=${y + 32}>${short(words)}</text></g>`;
  };
  return html`<div class="graph"><div class="graph-box" ref=${box} onClick=${() => choose(undefined)}>
    <svg role="group" aria-label=${label} width=${width * SCALES[scale]} height=${height * SCALES[scale]} viewBox="0 0 ${width} ${height}">
      ${lines.map(({ from, to, path, is_back: isBack, is_critical: isCritical }) => html`<path key=${`${from} ${to}`} d=${path}
        class=${['edge', isBack && 'back', isCritical && 'critical', lit && (lit.has(from) && lit.has(to) ? 'lit' : 'away')].filter(Boolean).join(' ')}/>`)}
      ${graph.nodes.map(node)}</svg></div>
    <label class="zoom"><span class="away">Size</span><input type="range" aria-label="Size" min="0" max=${SCALES.length - 1} value=${scale}
      onInput=${(event) => setScale(Number(event.target.value))}/></label></div>`;
}
