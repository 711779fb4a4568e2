/* Where the groups of a topic are: strips under one another on one scale, live, from millions to one message. */

import * as api from './api.js';
import { note } from './app.js';
import { age, badge, bytes, fill, h, number, plural, rate, say, short, table, terms } from './dom.js';
import { openReset } from './reset.js';
import { border, columnOf, drawAxis, drawMap, drawStrip, STATES } from './strip.js';

const GROUPS_MAX = 12;
const MARKS_MAX = 200;
const LEAST = 4;
const word = (state) => (state === 'ready' ? terms.ready : state);
/* An Apache Pulsar tells what is acked, and nothing else. */
const told = () => (terms.product === 'Milepost' ? STATES : ['ready', 'acked']);

export async function showPositions(root, { asked, topic, partition, partitions, rights, query, context, signal }) {
  const rows = new Map();
  let lines = [];
  let bounds = { first: 0, end: 1 };
  let seen = null;
  let whole = null;
  let isFollowing = true;
  let hovered = null;
  let waiting = null;
  let generation = 0;

  const legend = h('p', { class: 'legend' }, told().map((state) => h('span', null, h('i', { class: `swatch ${state}`, 'aria-hidden': 'true' }), word(state))));
  const range = h('output', { class: 'range', 'aria-live': 'off' });
  const button = (text, label, action) => h('button', { type: 'button', 'aria-label': label, title: label, on: { click: action } }, text);
  const tools = h('div', { class: 'tools', role: 'toolbar', 'aria-label': 'Zoom' },
    button('−', 'Zoom out', () => zoom(2)), button('+', 'Zoom in', () => zoom(0.5)), button('All', 'Show all', () => look(bounds.first, bounds.end)),
    button('⟶|', 'Show the end', () => look(Math.max(bounds.end - (seen.end - seen.first), bounds.first), bounds.end)),
    button('Oldest not acked', 'Show the oldest message that is not acked', oldest), range);
  const axis = h('canvas', { class: 'axis', 'aria-hidden': 'true' });
  const map = h('canvas', { class: 'map', 'aria-hidden': 'true' });
  const list = h('div', { class: 'strips' });
  const tip = h('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
  const numbers = h('details', { class: 'as-table' }, h('summary', null, 'As a table'));
  const help = h('p', { class: 'muted help', id: 'strip-help' },
    'Wheel or + and − zoom, drag or shift and arrows move, arrows walk from column to column, Enter zooms in there, Home and End go to the edges, 0 shows all.');
  const chart = h('div', { class: 'chart' }, h('div', { class: 'lane' }, h('span', { class: 'muted' }, 'whole'), map), h('div', { class: 'lane' }, h('span', null, ''), axis), list, tip);
  numbers.addEventListener('toggle', () => drawTable());

  const found = await api.get(api.own(topic, '/progress'), {}, signal);
  take(found);
  if (!lines.length) {
    fill(root, h('p', { class: 'muted' }, 'No group reads this topic: there is no position to show.'));
    const first = new AbortController();
    signal.addEventListener('abort', () => first.abort());
    api.poll(async () => {
      if (!(await api.get(api.own(topic, '/progress'), {}, signal)).subscriptions.length) return false;
      first.abort();
      await showPositions(root, { asked, topic, partition, partitions, rights, query, context, signal });
      return true;
    }, first.signal, { soon: 2000, seldom: 8000 });
    return;
  }
  const only = query.get('group');
  fill(root, h('div', { class: 'head' }, legend, tools), chart, help, numbers);
  seen = { ...bounds };
  if (query.has('first') && query.has('end')) {
    const [first, end] = [Number(query.get('first')), Number(query.get('end'))];
    if (Number.isSafeInteger(first) && Number.isSafeInteger(end) && first < end) look(first, end, false);
  }
  build();

  /* What is there */

  function take(answer) {
    lines = answer.subscriptions.filter((line) => !line.member)
      .sort((one, other) => one.subscription.localeCompare(other.subscription));
    const first = Math.min(...lines.map((line) => line.first));
    const end = Math.max(...lines.map((line) => line.end), first + 1);
    const wasWhole = seen && seen.first === bounds.first && seen.end === bounds.end;
    const grown = end - bounds.end;
    bounds = { first, end };
    if (seen && isFollowing && grown) {
      seen = wasWhole ? { ...bounds } : { first: Math.max(seen.first + grown, 0), end };
    }
  }

  function shown() {
    const chosen = only ? lines.filter((line) => line.subscription === only) : [];
    const others = lines.filter((line) => line.subscription !== only);
    return [...chosen, ...others].slice(0, GROUPS_MAX);
  }

  /* Rows */

  function build() {
    list.replaceChildren();
    rows.clear();
    for (const line of shown()) {
      const canvas = h('canvas', {
        class: 'strip', tabindex: '0', role: 'application', 'aria-roledescription': 'position strip',
        'aria-label': `Positions of ${line.subscription}`, 'aria-describedby': 'strip-help', data: { group: line.subscription },
      });
      const label = h('div', { class: 'who-where' });
      const below = h('div', { class: 'below' });
      const row = { line, canvas, label, below, strip: null, marks: null, at: null, mark: null };
      rows.set(line.subscription, row);
      listen(row);
      put(list, row);
    }
    const left = lines.length - rows.size;
    if (left > 0) list.append(h('p', { class: 'muted' }, `${plural(left, 'further group')}: choose one under Groups and producers.`));
    drawLabels();
  }

  function put(into, row) {
    into.append(h('div', { class: 'lane group' }, row.label, row.canvas), row.below);
  }

  function drawLabels() {
    for (const line of shown()) {
      const row = rows.get(line.subscription);
      if (!row) continue;
      row.line = line;
      const text = JSON.stringify([line.verdict, line.reason, line.ready, line.inflight, line.delayed, line.acked, line.rate_acked, context.mayChange]);
      if (row.text === text) continue;
      row.text = text;
      const counts = STATES.filter((state) => line[state]).map((state) => `${short(line[state])} ${word(state)}`).join(', ');
      fill(row.label, h('span', { class: 'name', title: line.subscription }, line.subscription), badge(line.verdict),
        h('span', { class: 'muted counts' }, counts || 'nothing retained'),
        line.backlog ? h('span', { class: 'muted' }, `${line.behind_ms === null ? '' : `${age(line.behind_ms)} behind, `}${rate(line.rate_acked)}/s acked`) : null,
        rights.consume && context.mayChange ? h('button', { type: 'button', class: 'reset', on: { click: () => reset(row) } }, 'Reset…') : null);
      if (!row.reason) row.reason = h('p', { class: 'why' });
      row.reason.textContent = line.reason;
      if (!row.below.contains(row.reason)) row.below.prepend(row.reason);
    }
  }

  /* What is seen */

  function look(first, end, isNoted = true) {
    const size = Math.max(Math.round(end - first), LEAST);
    const room = Math.max(bounds.end, LEAST);
    const width = Math.min(size, room);
    const left = Math.min(Math.max(Math.round(first), 0), Math.max(room - width, 0));
    seen = { first: left, end: left + width };
    isFollowing = seen.end >= bounds.end;
    if (isNoted) {
      const isAll = seen.first === bounds.first && seen.end === bounds.end;
      note(isAll ? { first: null, end: null } : { first: seen.first, end: seen.end });
    }
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(() => ask().catch(() => {}), 60);
  }

  function zoom(factor, around) {
    const size = seen.end - seen.first;
    const centre = around === undefined ? (seen.first + seen.end) / 2 : around;
    const wanted = Math.max(size * factor, LEAST);
    const share = (centre - seen.first) / size;
    look(centre - wanted * share, centre - wanted * share + wanted);
  }

  function oldest() {
    const behind = lines.filter((line) => line.backlog);
    if (!behind.length) { say('Everything is acked.'); return; }
    const index = Math.min(...behind.map((line) => line.mark_delete_index + 1));
    look(index - 20, index + 60);
  }

  async function ask() {
    generation += 1;
    const mine = generation;
    const { first, end } = seen;
    const width = Math.max(axis.clientWidth, 40);
    const columns = Math.min(Math.max(Math.floor(width / (window.innerWidth > 2200 ? 2 : 1)), 40), 2000);
    const size = end - first;
    const jobs = [...rows.values()].map(async (row) => {
      const path = `/subscriptions/${encodeURIComponent(row.line.subscription)}/strip`;
      const [strip, marks] = await Promise.all([
        api.get(api.own(topic, path), { first, end, columns }, signal),
        size <= MARKS_MAX && rights.consume ? api.get(api.own(topic, `${path}/messages`), { first, end }, signal).catch(() => null) : null,
      ]);
      if (mine !== generation) return;
      row.strip = strip;
      row.marks = marks && new Map(marks.messages.map((mark) => [mark.index, mark]));
    });
    const [line] = [...shown()].sort((one, other) => other.holes - one.holes);
    if (line) {
      const path = `/subscriptions/${encodeURIComponent(line.subscription)}/strip`;
      jobs.push(api.get(api.own(topic, path), { first: 0, end: bounds.end, columns: Math.min(width, 600) }, signal).then((one) => { whole = one; }));
    }
    await Promise.all(jobs);
    if (mine === generation) draw();
  }

  let lastDrawn = '';
  async function step() {
    const answer = await api.get(api.own(topic, '/progress'), {}, signal);
    const state = JSON.stringify(answer.subscriptions.map((line) => [line.subscription, line.first, line.end, line.ready, line.inflight, line.delayed, line.epoch, line.mark_delete_index, line.messages_out, line.messages_acked]));
    const names = lines.map((line) => line.subscription).join('\n');
    take(answer);
    if (names !== lines.map((line) => line.subscription).join('\n')) build();
    drawLabels();
    const hasMoved = state !== lastDrawn;
    lastDrawn = state;
    if (hasMoved || seen.end - seen.first <= MARKS_MAX) await ask();
    return hasMoved;
  }

  /* Drawing */

  function draw() {
    drawAxis(axis, seen.first, seen.end, number);
    if (whole) drawMap(map, whole, seen.first, seen.end);
    range.textContent = `${terms.place} ${number(seen.first)} to ${number(seen.end)}: ${plural(seen.end - seen.first, terms.one, terms.many)}`;
    for (const row of rows.values()) {
      if (!row.strip) continue;
      const at = hovered !== null && hovered >= row.strip.first && hovered < row.strip.end ? hovered : null;
      drawStrip(row.canvas, row.strip, { at, mark: row.mark, marks: row.marks });
    }
    drawTable();
  }

  function drawTable() {
    if (!numbers.open) return;
    const parts = 12;
    const tables = [...rows.values()].filter((row) => row.strip).map((row) => {
      const { strip } = row;
      const count = Math.min(parts, strip.columns);
      const cells = Array.from({ length: count }, (_, part) => {
        const from = Math.floor((strip.columns * part) / count);
        const to = Math.floor((strip.columns * (part + 1)) / count);
        const sum = (state) => strip[state].slice(from, to).reduce((one, other) => one + other, 0);
        return [`${number(border(strip, from))} to ${number(border(strip, to))}`, ...told().map((state) => number(sum(state)))];
      });
      return table(`Positions of ${row.line.subscription}`, [terms.place === 'index' ? 'Indexes' : 'Entries', ...told().map((state) => [word(state)])], cells);
    });
    const old = [...numbers.children].slice(1);
    old.forEach((one) => one.remove());
    numbers.append(...tables);
  }

  /* Pointing */

  function indexAt(row, x) {
    const { strip, canvas } = row;
    if (!strip || !strip.columns) return null;
    const column = Math.min(Math.max(Math.floor((x / canvas.clientWidth) * strip.columns), 0), strip.columns - 1);
    return border(strip, column);
  }

  function words(row, index) {
    const { strip, marks } = row;
    const column = columnOf(strip, index);
    const [first, end] = [border(strip, column), border(strip, column + 1)];
    const mark = marks && marks.get(index);
    if (end - first === 1 && mark) {
      return [
        `${terms.place} ${number(index)}`, `id ${mark.id}`, word(mark.state), terms.product !== 'Milepost' ? null : mark.key === null ? 'no key' : `key ${mark.key}`,
        mark.age_ms ? `came ${age(mark.age_ms)} ago` : null, mark.holder ? `with ${mark.holder}` : null,
        mark.deliveries ? `delivered ${mark.deliveries === 1 ? 'once' : `${mark.deliveries} times`}` : null,
        mark.size >= 0 ? bytes(mark.size) : null,
      ].filter(Boolean);
    }
    const counts = STATES.filter((state) => strip[state][column]).map((state) => `${number(strip[state][column])} ${word(state)}`);
    return [end - first === 1 ? `${terms.place} ${number(first)}` : `${terms.place} ${number(first)} to ${number(end - 1)}`, ...(counts.length ? counts : ['not there yet'])];
  }

  function showTip(row, index, x) {
    fill(tip, h('strong', null, row.line.subscription), words(row, index).map((word) => h('span', null, word)));
    tip.hidden = false;
    const box = chart.getBoundingClientRect();
    const canvas = row.canvas.getBoundingClientRect();
    const left = Math.min(Math.max(canvas.left - box.left + x - tip.offsetWidth / 2, 0), Math.max(box.width - tip.offsetWidth, 0));
    tip.style.left = `${left}px`;
    tip.style.top = `${canvas.bottom - box.top + 6}px`;
  }

  function listen(row) {
    const { canvas } = row;
    let grip = null;
    canvas.addEventListener('wheel', (event) => {
      if (!row.strip) return;
      event.preventDefault();
      const size = seen.end - seen.first;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const by = ((event.deltaX || event.deltaY) / canvas.clientWidth) * size;
        look(seen.first + by, seen.end + by);
        return;
      }
      const centre = seen.first + (event.offsetX / canvas.clientWidth) * size;
      zoom(Math.exp(Math.max(Math.min(event.deltaY, 300), -300) * 0.003), centre);
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      const place = row.mark === null || !row.strip ? null : ((row.mark - row.strip.first) / (row.strip.end - row.strip.first)) * canvas.clientWidth;
      grip = { x: event.offsetX, seen: { ...seen }, isMark: place !== null && Math.abs(place - event.offsetX) < 10 };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (grip && grip.isMark) {
        const size = seen.end - seen.first;
        const index = Math.round(seen.first + (event.offsetX / canvas.clientWidth) * size);
        row.dragged(Math.min(Math.max(index, bounds.first), bounds.end));
        return;
      }
      if (grip) {
        const by = ((grip.x - event.offsetX) / canvas.clientWidth) * (grip.seen.end - grip.seen.first);
        if (Math.abs(grip.x - event.offsetX) > 3) look(grip.seen.first + by, grip.seen.end + by);
        return;
      }
      hovered = indexAt(row, event.offsetX);
      if (hovered === null) return;
      draw();
      showTip(row, hovered, event.offsetX);
    });
    canvas.addEventListener('pointerup', () => { grip = null; });
    canvas.addEventListener('pointerleave', () => { hovered = null; tip.hidden = true; draw(); });
    canvas.addEventListener('dblclick', (event) => {
      const index = indexAt(row, event.offsetX);
      if (index !== null) zoom(0.1, index);
    });
    canvas.addEventListener('keydown', (event) => keys(row, event));
    canvas.addEventListener('blur', () => { hovered = null; tip.hidden = true; draw(); });
  }

  function keys(row, event) {
    const size = seen.end - seen.first;
    if (event.ctrlKey || event.metaKey || event.altKey || !row.strip) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === '+' || event.key === '=') zoom(0.5, hovered ?? undefined);
    else if (event.key === '-' || event.key === '_') zoom(2, hovered ?? undefined);
    else if (event.key === '0') look(bounds.first, bounds.end);
    else if (event.key === 'Home') look(bounds.first, bounds.first + size);
    else if (event.key === 'End') look(bounds.end - size, bounds.end);
    else if (step && event.shiftKey) look(seen.first + (step * size) / 4, seen.end + (step * size) / 4);
    else if (step) walk(row, step);
    else if (event.key === 'Enter' && hovered !== null) zoom(0.1, hovered);
    else return;
    event.preventDefault();
  }

  function walk(row, step) {
    const { strip } = row;
    const isInside = hovered !== null && hovered >= strip.first && hovered < strip.end;
    const column = isInside ? columnOf(strip, hovered) + step : step > 0 ? 0 : strip.columns - 1;
    hovered = border(strip, Math.min(Math.max(column, 0), strip.columns - 1));
    draw();
    const x = ((columnOf(strip, hovered) + 0.5) / strip.columns) * row.canvas.clientWidth;
    showTip(row, hovered, x);
    say(words(row, hovered).join(', '));
  }

  /* Moving a group */

  function reset(row) {
    if (row.panel) { row.panel.close(); return; }
    row.mark = row.line.mark_delete_index + 1;
    row.panel = openReset(row.below, {
      asked, topic, partition, partitions, line: row.line, signal,
      onMark: (index) => { row.mark = index; draw(); },
      onClose: () => { row.mark = null; row.panel = null; row.dragged = null; draw(); },
      onDone: () => step().catch(() => {}),
    });
    row.dragged = (index) => { row.mark = index; row.panel.moveTo(index); draw(); };
    draw();
  }

  map.addEventListener('pointerdown', (event) => {
    const jump = (at) => {
      const size = seen.end - seen.first;
      const centre = (at / map.clientWidth) * bounds.end;
      look(centre - size / 2, centre + size / 2);
    };
    jump(event.offsetX);
    const move = (one) => jump(one.offsetX);
    map.setPointerCapture(event.pointerId);
    map.addEventListener('pointermove', move);
    map.addEventListener('pointerup', () => map.removeEventListener('pointermove', move), { once: true });
  });
  const resized = new ResizeObserver(() => { draw(); clearTimeout(waiting); waiting = setTimeout(() => ask().catch(() => {}), 120); });
  resized.observe(chart);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', draw);
  signal.addEventListener('abort', () => { resized.disconnect(); dark.removeEventListener('change', draw); clearTimeout(waiting); });

  await ask();
  if (only && query.has('reset') && rights.consume && context.mayChange) reset(rows.get(only));
  api.poll(step, signal, { soon: 1000, seldom: 8000 });
}
