/* Messages of a topic: from an index, id or time on, filtered; payloads decoded, long ones cut. */

import * as api from './api.js';
import { note } from './app.js';
import { bytes, fill, h, moment, number, plural, problem, say, terms } from './dom.js';

const CUT = 4096;
const SHOWN_MAX = 1024 * 1024;

export async function showMessages(root, { topic, rights, query, signal }) {
  if (!rights.consume) {
    fill(root, h('p', { class: 'muted' }, 'Reading messages needs the right to consume, which your role does not have.'));
    return;
  }
  const kind = h('select', { 'aria-label': 'Begin at' }, [['end', 'the newest'], ['index', terms.place], ['id', 'id'], ['time', 'time']]
    .map(([value, text]) => h('option', { value, selected: value === (query.get('from') || 'end') }, text)));
  const at = h('input', { 'aria-label': 'Where to begin', value: query.get('at') || '', size: 24 });
  const texts = Object.fromEntries([['key', 'Key has'], ['property', 'Property, or name=value'], ['content', 'Content has']]
    .map(([name, label]) => [name, h('input', { 'aria-label': label, placeholder: label, value: query.get(name) || '', size: 18 })]));
  const suit = () => {
    at.hidden = kind.value === 'end';
    at.type = kind.value === 'time' ? 'datetime-local' : kind.value === 'index' ? 'number' : 'text';
    at.step = kind.value === 'time' ? '0.001' : '1';
    at.placeholder = kind.value === 'id' ? 'ledger:entry' : '';
  };
  kind.addEventListener('change', suit);
  suit();
  at.value = query.get('at') || '';
  const list = h('div', { class: 'messages' });
  const form = h('form', { class: 'filter', on: { submit: (event) => { event.preventDefault(); look(); } } },
    h('span', { class: 'muted' }, 'From'), kind, at, texts.key, texts.property, texts.content, h('button', { class: 'main' }, 'Look'));
  fill(root, form, list);
  const count = 50;

  function wanted(next) {
    const asked = { count, payload_max: CUT };
    for (const [name, input] of Object.entries(texts)) asked[name] = input.value;
    if (next !== undefined) asked.index = next;
    else if (kind.value === 'time') asked.time = new Date(at.value).getTime();
    else if (kind.value !== 'end') asked[kind.value] = at.value;
    return asked;
  }

  async function look() {
    note({ from: kind.value === 'end' ? null : kind.value, at: kind.value === 'end' ? null : at.value, ...Object.fromEntries(Object.entries(texts).map(([name, input]) => [name, input.value])) });
    try {
      let asked = wanted();
      if (kind.value === 'end') {
        const { end, first } = await api.get(api.own(topic, '/messages'), { index: Number.MAX_SAFE_INTEGER, count: 1 }, signal);
        const isFiltered = Object.values(texts).some((input) => input.value);
        asked = { ...asked, index: isFiltered ? first : Math.max(first, end - count) };
      }
      draw(await api.get(api.own(topic, '/messages'), asked, signal), false);
    } catch (error) {
      if (!signal.aborted) fill(list, problem(error));
    }
  }

  async function more(next, button) {
    button.disabled = true;
    const found = await api.get(api.own(topic, '/messages'), wanted(next), signal);
    button.parentElement.remove();
    draw(found, true);
  }

  function draw(found, isMore) {
    if (!isMore) list.replaceChildren();
    const newest = kind.value === 'end' && !isMore && !Object.values(texts).some((input) => input.value);
    const rows = newest ? [...found.messages].reverse() : found.messages;
    list.append(...rows.map((message) => row(topic, message, signal)));
    if (!isMore && !rows.length) list.append(h('p', { class: 'muted' }, found.next === null ? 'No message fits.' : `No message fits among the first ${plural(found.looked_at, 'entry', 'entries')}.`));
    if (found.next !== null) {
      const button = h('button', { on: { click: () => more(found.next, button).catch((error) => say(error.message)) } }, `Go on at ${terms.place} ${number(found.next)}`);
      list.append(h('p', { class: 'pager' }, button));
    }
    say(plural(rows.length, 'message'));
  }

  await look();
}

function row(topic, message, signal) {
  const start = raw(message.payload);
  const body = h('div', { class: 'body' });
  const details = h('details', { class: 'message', data: { index: message.index } },
    h('summary', null,
      h('span', { class: 'index' }, number(message.index)), h('span', { class: 'when' }, moment(message.publish_ms)),
      h('span', { class: 'key' }, message.key === null ? h('span', { class: 'muted' }, 'no key') : message.key),
      h('span', { class: 'size' }, bytes(message.size)),
      h('span', { class: 'preview' }, message.is_null ? 'null' : message.schema_type ? JSON.stringify(message.value).slice(0, 200) : preview(start))), body);
  details.addEventListener('toggle', () => { if (details.open && !body.childNodes.length) open(); }, { once: false });

  function open() {
    const facts = [
      ['Id', message.id], Number.isInteger(message.real_index) ? ['Index', number(message.real_index)] : null, ['Came', moment(message.came_ms)], ['Published', moment(message.publish_ms)],
      message.event_ms ? ['Event time', moment(message.event_ms)] : null,
      message.deliver_at_ms ? ['Due', moment(message.deliver_at_ms)] : null,
      ['Producer', `${message.producer}, sequence ${message.sequence_id ?? '–'}`],
      message.schema_version === null ? null
        : ['Schema version', message.schema_type ? `${message.schema_version}, ${message.schema_type}` : message.schema_version],
      message.compression ? ['Compression', message.compression] : null,
      message.batch_size ? ['Batch', `of ${message.batch_size}`] : null,
      message.chunks ? ['Chunks', message.chunks] : null,
      message.transaction ? ['Transaction', message.transaction] : null,
      message.fault ? ['Shown as it lies', message.fault] : null,
      ...Object.entries(message.properties).map(([name, value]) => [`Property ${name}`, value]),
    ].filter(Boolean);
    const view = h('div');
    fill(body, h('dl', null, facts.map(([name, value]) => [h('dt', null, name), h('dd', null, value)])), view);
    payloadView(view, start, message);
  }

  function payloadView(view, data, { is_cut: isCut, size, is_null: isNull }) {
    if (isNull) { fill(view, h('p', { class: 'muted' }, 'No payload: null deletes the key.')); return; }
    const forms = message.schema_type
      ? { [message.schema_type]: () => JSON.stringify(message.value, null, 2), ...decoded(data, isCut) }
      : decoded(data, isCut);
    const text = h('pre', { tabindex: '0', class: 'payload' });
    const choose = h('select', { 'aria-label': 'Shown as' }, Object.keys(forms).map((name) => h('option', { value: name }, name)));
    const showForm = () => { text.textContent = forms[choose.value](); };
    choose.addEventListener('change', showForm);
    showForm();
    const all = isCut ? h('button', { on: { click: async () => {
      const whole = await api.payload(api.own(topic, message.payload_path || `/messages/${message.index}/payload`), signal);
      payloadView(view, whole.subarray(0, SHOWN_MAX), { is_cut: false, size: whole.length, is_null: false });
      if (whole.length > SHOWN_MAX) view.append(h('p', { class: 'muted' }, `The first ${bytes(SHOWN_MAX)} of ${bytes(whole.length)}.`));
    } } }, `Show all ${bytes(size)}`) : null;
    fill(view, h('p', { class: 'inline' }, choose, ' ', isCut ? h('span', { class: 'muted' }, `the first ${bytes(data.length)} of ${bytes(size)} `) : h('span', { class: 'muted' }, bytes(size)), ' ', all), text);
  }
  return details;
}

function raw(base64) {
  return Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
}

function asText(data, isCut) {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(data, { stream: Boolean(isCut) }); } catch { return null; }
}

function decoded(data, isCut) {
  const text = asText(data, isCut);
  const forms = {};
  if (text !== null && /^\s*[[{"]/.test(text)) {
    try { JSON.parse(text); forms.JSON = () => laidOut(text); } catch { /* text then */ }
  }
  if (text !== null && !/[\u0000-\u0008\u000e-\u001f]/.test(text)) forms.text = () => text;
  forms.hex = () => hex(data);
  return forms;
}

/* Lays out a text that is JSON without reading its values: a number of twenty digits, and a name that is there
   twice, stay as they were sent. */
export function laidOut(text) {
  let shown = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  const parts = text.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g) || [];
  parts.forEach((part, at) => {
    if (part === '{' || part === '[') {
      const isEmpty = parts[at + 1] === '}' || parts[at + 1] === ']';
      depth += 1;
      shown += isEmpty ? part : part + line();
    } else if (part === '}' || part === ']') {
      depth -= 1;
      const isEmpty = parts[at - 1] === '{' || parts[at - 1] === '[';
      shown += isEmpty ? part : line() + part;
    } else if (part === ',') shown += part + line();
    else shown += part === ':' ? ': ' : part;
  });
  return shown;
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 65536); at += 16) {
    const part = [...data.subarray(at, at + 16)];
    const numbers = part.map((one) => one.toString(16).padStart(2, '0')).join(' ');
    const signs = part.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : '·')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${numbers.padEnd(47)}  ${signs}`);
  }
  return lines.join('\n');
}

function preview(data) {
  const text = asText(data.subarray(0, 300), true);
  return text === null ? [...data.subarray(0, 24)].map((one) => one.toString(16).padStart(2, '0')).join(' ') : text.replace(/\s+/g, ' ').slice(0, 200);
}
