/* The frame of the console: who is looking, where to, and which view that is. */

import * as api from './api.js';
import { fill, h, isPulsar, problem, say, speakOf } from './dom.js';
import { showOverview } from './overview.js';
import { showSignIn } from './sign_in.js';
import { showTopic } from './topic.js';
import { showTopics } from './topics.js';

const bar = document.getElementById('bar');
const main = document.getElementById('main');
let session = null;
let leaving = new AbortController();

/* Changes are offered only after they were switched on, in this tab. */
const CHANGES = 'milepost.changes';
export const context = {
  get session() { return session; },
  get mayChange() { return !session?.read_only && sessionStorage.getItem(CHANGES) === 'on'; },
};

export function route() {
  const [path, query] = location.hash.replace(/^#/, '').split('?');
  return {
    path: path.split('/').filter(Boolean).map(decode),
    query: new URLSearchParams(query || ''),
  };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/* Change the address without a step in the history: links to what is seen can be shared. */
export function note(changes) {
  const { query } = route();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') query.delete(name);
    else query.set(name, value);
  }
  const [path] = location.hash.split('?');
  const tail = query.toString();
  history.replaceState(null, '', `${path || '#/'}${tail ? `?${tail}` : ''}`);
}

const UNTOLD = 'This is an Apache Pulsar. Its REST tells positions of whole entries: a batch counts as one, and is not acked until all of it is. Which consumer holds what, and how old an entry is, it does not tell, nor what a role may do before that is tried.';

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  if (!session) {
    try {
      session = await api.get('milepost/v1/session', {}, signal);
      speakOf(session.product);
    } catch (error) {
      if (error.name === 'AbortError' || error.status === 401) return;
      fill(main, problem(error), h('button', { on: { click: show } }, 'Try again'));
      return;
    }
  }
  const { path, query } = route();
  drawBar(path[0] || 'overview');
  document.dispatchEvent(new CustomEvent('stale', { detail: '' }));
  const root = h('div', { class: 'view' });
  fill(main, root, isPulsar() ? h('p', { class: 'muted help' }, UNTOLD) : null);
  try {
    if (path[0] === 'topic' && path.length >= 4) {
      const topic = { domain: 'persistent', tenant: path[1], namespace: path[2], local: path.slice(3).join('/') };
      document.title = `${topic.local} · Milepost`;
      await showTopic(root, topic, query, context, signal);
    } else if (path[0] === 'topics') {
      document.title = 'Topics · Milepost';
      await showTopics(root, query, context, signal);
    } else {
      document.title = 'Overview · Milepost';
      await showOverview(root, query, context, signal);
    }
  } catch (error) {
    if (!signal.aborted && error.status !== 401) fill(root, problem(error), h('a', { href: '#/' }, 'To the overview'));
  }
}

function drawBar(where) {
  const link = (name, href, text) => h('a', { href, 'aria-current': where === name ? 'page' : null }, text);
  const search = h('input', { type: 'search', placeholder: 'Find a topic', 'aria-label': 'Find a topic', name: 'search' });
  const find = h('form', { role: 'search', on: { submit: (event) => {
    event.preventDefault();
    location.hash = `#/topics?${new URLSearchParams({ search: search.value })}`;
  } } }, search);
  const changes = session.read_only ? h('span', { class: 'muted', id: 'read-only' }, 'Read only') : h('label', { class: 'switch', title: 'Off: these pages are read only' },
    h('input', { type: 'checkbox', id: 'changes', checked: context.mayChange, on: { change: (event) => {
      sessionStorage.setItem(CHANGES, event.target.checked ? 'on' : 'off');
      say(event.target.checked ? 'Changes are offered now.' : 'Read only.');
      show();
    } } }), h('span', null, 'Allow changes'));
  fill(bar,
    h('a', { class: 'mark', href: '#/' }, h('img', { src: 'icon.svg', alt: '', width: 22, height: 22 }), 'Milepost'),
    h('nav', { 'aria-label': 'Console' }, link('overview', '#/', 'Overview'), link('topics', '#/topics', 'Topics')),
    find,
    h('div', { class: 'who' }, changes,
      h('span', { class: 'muted cluster' }, [session.cluster, session.version].filter(Boolean).join(' · ')),
      session.role ? h('span', { class: 'role' }, session.role) : null,
      api.credentials() ? h('button', { class: 'plain', on: { click: () => { api.signOut(); session = null; show(); } } }, 'Sign out') : null));
}

document.addEventListener('signed-out', (event) => {
  leaving.abort();
  const wasSignedIn = Boolean(api.credentials());
  api.signOut();
  session = null;
  fill(bar, h('a', { class: 'mark', href: '#/' }, h('img', { src: 'icon.svg', alt: '', width: 22, height: 22 }), 'Milepost'));
  document.title = 'Sign in · Milepost';
  showSignIn(main, wasSignedIn ? event.detail : '', show);
});

let staleSince = null;
document.addEventListener('stale', (event) => {
  const banner = document.getElementById('stale');
  if (!event.detail) { staleSince = null; banner.hidden = true; return; }
  if (!staleSince) staleSince = new Date();
  const text = `Not up to date since ${staleSince.toLocaleTimeString()}: ${event.detail}`;
  banner.hidden = false;
  if (banner.textContent !== text) banner.textContent = text;
});

window.addEventListener('hashchange', () => {
  show();
  main.focus({ preventScroll: true });
});
show();
