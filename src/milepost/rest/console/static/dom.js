/* Elements and words. Whatever comes from a topic, a key or a payload becomes a text node, never markup. */

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === 'data') {
      Object.assign(element.dataset, value);
    } else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'selected') {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  put(element, ...children);
  return element;
}

export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const exactTime = new Intl.DateTimeFormat(undefined, {
  year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit',
  second: '2-digit', fractionalSecondDigits: 3, hour12: false, timeZoneName: 'short',
});

/* What is counted, and what the broker calls it. Apache Pulsar tells positions of entries: a batch is one. */
export const terms = { product: 'Milepost', place: 'index', one: 'message', many: 'messages', ready: 'ready' };

export function speakOf(product) {
  Object.assign(terms, product === 'Apache Pulsar'
    ? { product, place: 'entry', one: 'entry', many: 'entries', ready: 'not acked' }
    : { product: 'Milepost', place: 'index', one: 'message', many: 'messages', ready: 'ready' });
}

export const isPulsar = () => terms.product !== 'Milepost';

/* A dash for what the broker does not tell. */
const UNTOLD = '–';
export const number = (value) => (value === null || value === undefined ? UNTOLD : whole.format(value));
export const short = (value) => (value === null || value === undefined || Math.abs(value) < 10000 ? number(value) : compact.format(value));
export const rate = (value) => (value >= 100 || value === 0 ? short(Math.round(value)) : value.toFixed(1));
export const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many || `${one}s`}`;

export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function age(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return UNTOLD;
  const seconds = milliseconds / 1000;
  if (seconds < 1) return 'under 1 s';
  for (const [unit, size] of [['s', 1], ['min', 60], ['h', 3600], ['days', 86400]]) {
    const limit = unit === 's' ? 120 : unit === 'min' ? 7200 : unit === 'h' ? 172800 : Infinity;
    if (seconds < limit) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return '';
}

export function moment(milliseconds) {
  if (!milliseconds) return '–';
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return String(milliseconds);
  return h('time', { datetime: date.toISOString(), title: date.toISOString() }, exactTime.format(date));
}

/* The names of a topic, as routes and REST paths have them. */
export function parts(name) {
  const [, rest] = name.split('://');
  const [tenant, namespace, ...local] = rest.split('/');
  return { domain: name.split('://')[0], tenant, namespace, local: local.join('/') };
}

export function shortName(name) {
  const { tenant, namespace, local } = parts(name);
  return tenant === 'public' && namespace === 'default' ? local : `${tenant}/${namespace}/${local}`;
}

export const baseName = (name) => name.replace(/-partition-\d+$/, '');

/* A link with a name of a stranger's choosing: what is cut off is read in its title. */
export function nameLink(href, name, ...more) {
  return h('a', { href, title: name.length > 60 ? name : null }, name, ...more);
}

export function topicLink(name, query) {
  const { tenant, namespace, local } = parts(name);
  const asked = new URLSearchParams(query || {}).toString();
  return `#/topic/${[tenant, namespace, local].map(encodeURIComponent).join('/')}${asked ? `?${asked}` : ''}`;
}

const SEVERITY = {
  CAUGHT_UP: 'well', CONSUMING: 'well', SLOW: 'watch', RESET_PENDING: 'watch', NO_CONSUMER: 'watch',
  STARVED: 'bad', STALLED: 'bad', BLOCKED_BY_HOLE: 'bad', DAMAGED: 'bad',
};

export function badge(verdict, count) {
  if (!verdict) return h('span', { class: 'muted' }, 'no group');
  const word = verdict.toLowerCase().replaceAll('_', ' ');
  const shown = count === undefined ? word : `${number(count)} ${word}`;
  return h('span', { class: `badge ${SEVERITY[verdict] || 'bad'}` }, shown);
}

export function table(caption, heads, rows, options) {
  const heading = heads.map((head) => {
    const text = Array.isArray(head) ? head[0] : head;
    return h('th', { scope: 'col', class: Array.isArray(head) ? 'number' : null }, text);
  });
  const body = rows.map((row) => h('tr', null, row.map((cell, at) => (
    h('td', { class: Array.isArray(heads[at]) ? 'number' : null, 'data-head': Array.isArray(heads[at]) ? heads[at][0] : heads[at] }, cell)
  ))));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', { class: (options && options.class) || null },
      h('caption', null, caption), h('thead', null, h('tr', null, heading)), h('tbody', null, body)));
}

export function figure(label, value, note, href, drawn) {
  const inside = [h('span', { class: 'label' }, label), h('span', { class: 'value' }, value), note ? h('span', { class: 'note' }, note) : null, drawn || null];
  return href ? h('a', { class: 'figure', href }, inside) : h('div', { class: 'figure' }, inside);
}

/* A line of the newest values, oldest first: what a number did while this page was open. */
export function spark(values, label) {
  const space = 'http://www.w3.org/2000/svg';
  const image = document.createElementNS(space, 'svg');
  image.setAttribute('viewBox', '0 0 100 24');
  image.setAttribute('preserveAspectRatio', 'none');
  image.setAttribute('class', 'spark');
  image.setAttribute('role', 'img');
  image.setAttribute('aria-label', label);
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, at) => `${(at / Math.max(values.length - 1, 1)) * 100},${23 - (value / most) * 21}`);
  const line = document.createElementNS(space, 'polyline');
  line.setAttribute('points', points.join(' '));
  image.append(line);
  return image;
}

export function say(text) {
  const notice = document.getElementById('notice');
  notice.textContent = '';
  notice.textContent = text;
}

export function problem(error) {
  const why = error.status === 403 ? `Your role may not see this: ${error.message}` : error.message;
  return h('p', { class: 'problem', role: 'alert' }, why);
}
