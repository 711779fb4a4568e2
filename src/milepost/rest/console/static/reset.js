/* Moves a group, after showing what that does: how many come again, how many are skipped. */

import * as api from './api.js';
import { fill, h, number, plural, problem, say, terms } from './dom.js';

export function openReset(place, { asked, topic, partition, partitions, line, signal, onMark, onClose, onDone }) {
  const group = line.subscription;
  let move = null;
  let timer = null;
  let turn = 0;
  const field = (text, control) => h('label', null, h('span', null, text), control);
  const kind = h('select', { 'aria-label': 'Target' }, [['index', terms.place], ['id', 'message id'], ['time', 'time'], ['earliest', 'the earliest'], ['latest', 'the latest']]
    .map(([value, text]) => h('option', { value }, text)));
  const value = h('input', { 'aria-label': 'Where to', type: 'number', min: 0, step: 1, value: line.mark_delete_index + 1 });
  const all = partitions ? h('input', { type: 'checkbox' }) : null;
  const outcome = h('div', { class: 'outcome', role: 'status', 'aria-live': 'polite' });
  const name = h('input', { 'aria-label': `Type ${group} to confirm`, autocomplete: 'off', spellcheck: 'false' });
  const go = h('button', { class: 'danger', disabled: true }, 'Reset');
  const cancel = h('button', { type: 'button', on: { click: () => close() } }, 'Close');
  const history = h('div', { class: 'obeyed', 'aria-live': 'polite' });
  const panel = h('form', { class: 'reset-panel', 'aria-label': `Reset ${group}`, on: { submit: (event) => { event.preventDefault(); perform(); }, keydown: (event) => { if (event.key === 'Escape') close(); } } },
    h('div', { class: 'fields' }, field('Move to', kind), field('', value), all ? h('label', { class: 'check' }, all, h('span', null, `all ${partitions} partitions`)) : null),
    outcome,
    h('div', { class: 'fields' }, field(['Type ', h('code', null, group), ' to confirm'], name), go, cancel), history);

  kind.addEventListener('change', () => {
    const { value: chosen } = kind;
    value.parentElement.hidden = chosen === 'earliest' || chosen === 'latest';
    value.type = chosen === 'index' ? 'number' : chosen === 'time' ? 'datetime-local' : 'text';
    value.step = chosen === 'time' ? '0.001' : '1';
    value.value = chosen === 'index' ? String(line.mark_delete_index + 1) : '';
    preview();
  });
  value.addEventListener('input', () => preview(250));
  if (all) all.addEventListener('change', () => preview());
  name.addEventListener('input', allow);

  function wanted() {
    const body = {};
    const { value: chosen } = kind;
    if (chosen === 'earliest' || chosen === 'latest') body.position = chosen;
    else if (value.value === '') return null;
    else if (chosen === 'index') body.index = Number(value.value);
    else if (chosen === 'id') body.id = value.value.trim();
    else body.time = new Date(value.value).getTime();
    return body;
  }

  const path = () => api.own(all && all.checked ? asked : topic, `/subscriptions/${encodeURIComponent(group)}/reset`);
  function allow() { go.disabled = !(move && name.value === group); }

  function preview(wait = 0) {
    move = null;
    allow();
    clearTimeout(timer);
    timer = setTimeout(look, wait);
  }

  async function look() {
    const body = wanted();
    turn += 1;
    const mine = turn;
    if (!body) { fill(outcome, h('p', { class: 'muted' }, 'Say where to, or drag the mark on the strip.')); return; }
    try {
      const found = await api.post(path(), { ...body, dry_run: true }, signal);
      if (mine !== turn) return;
      move = { body, found, path: path() };
      const [first] = found.moves;
      const one = found.moves.length === 1;
      fill(outcome,
        h('p', { class: 'preview' },
          h('span', { class: 'again' }, h('strong', null, number(found.redelivered)), ' come again'),
          h('span', { class: 'skipped' }, h('strong', null, number(found.skipped)), ' are skipped'),
          terms.product === 'Milepost' ? h('span', { class: 'muted' }, `${number(found.moves.reduce((sum, each) => sum + each.released, 0))} taken from consumers`) : h('span', { class: 'muted' }, terms.many)),
        h('p', { class: 'muted' }, one ? `From ${terms.place} ${number(first.was)} to ${number(first.to)}.` : `On ${plural(found.moves.length, 'partition')}.`,
          ...found.moves.filter((each) => each.note).map((each) => ` ${each.note}.`)));
      const here = found.moves.find((each) => each.partition === partition) || first;
      if (here) onMark(here.to);
    } catch (error) {
      if (mine !== turn || signal.aborted) return;
      fill(outcome, problem(error));
    }
    allow();
  }

  async function perform() {
    if (!move || name.value !== group) return;
    go.disabled = true;
    try {
      const guard = move.found.moves.length === 1 ? { expected: move.found.moves[0].was } : {};
      const done = await api.post(move.path, { ...move.body, ...guard }, signal);
      fill(outcome, h('p', { class: 'well-text' }, `Done: ${plural(done.redelivered, terms.one, terms.many)} come again, ${number(done.skipped)} skipped.`));
      say(`${group} is reset.`);
      move = null;
      name.value = '';
      onDone();
      watch();
    } catch (error) {
      fill(outcome, problem(error));
      if (error.status === 412) setTimeout(() => preview(), 1500);
    }
  }

  /* Who has obeyed, live. */
  function watch() {
    const step = async () => {
      const resets = await api.get(api.own(topic, `/subscriptions/${encodeURIComponent(group)}/resets`), {}, signal);
      const last = resets[resets.length - 1];
      if (!last || !panel.isConnected) return false;
      fill(history, h('p', null, last.waiting.length ? `Not obeyed yet by ${last.waiting.join(', ')}.` : last.obeyed.length ? `Obeyed by ${last.obeyed.join(', ')}.` : 'No consumer was connected: the next one begins there.'));
      return last.waiting.length > 0;
    };
    step().catch(() => {});
    api.poll(step, signal, { soon: 500, seldom: 5000 });
  }

  function close() {
    clearTimeout(timer);
    turn += 1;
    panel.remove();
    onClose();
  }

  place.append(panel);
  preview();
  value.focus();
  return {
    close,
    moveTo(index) {
      kind.value = 'index';
      value.parentElement.hidden = false;
      value.type = 'number';
      value.value = String(index);
      preview(150);
    },
  };
}
