/* All topics, by name: searched and paged. */

import * as api from './api.js';
import { badge, bytes, fill, h, nameLink, number, rate, short, shortName, table, topicLink } from './dom.js';

const PAGE = 50;

export async function showTopics(root, query, context, signal) {
  const { session } = context;
  const namespace = query.get('namespace') || (session.is_superuser ? '' : session.namespaces[0] || '');
  const search = h('input', { type: 'search', value: query.get('search') || '', 'aria-label': 'Part of the name', placeholder: 'Part of the name' });
  const select = h('select', { 'aria-label': 'Namespace' },
    (session.is_superuser ? ['', ...session.namespaces] : session.namespaces)
      .map((one) => h('option', { value: one, selected: one === namespace }, one || 'all namespaces')));
  const form = h('form', { class: 'filter', on: { submit: (event) => { event.preventDefault(); go(); } } },
    search, select, h('button', null, 'Search'));
  select.addEventListener('change', () => go());
  const go = () => {
    const asked = new URLSearchParams();
    if (search.value) asked.set('search', search.value);
    if (select.value) asked.set('namespace', select.value);
    location.hash = `#/topics?${asked}`;
  };
  const path = namespace ? `milepost/v1/namespaces/${namespace.split('/').map(encodeURIComponent).join('/')}/topics` : 'milepost/v1/topics';
  const list = h('section', { 'aria-label': 'Topics' });
  fill(root, h('div', { class: 'head' }, h('h1', null, 'Topics'), form), list);
  const found = await api.get(path, { search: search.value, after: query.get('after'), limit: PAGE }, signal);
  const heads = ['Topic', 'Verdict', ['Groups'], ['Messages'], ['Backlog'], ['Stored'], ['In/s'], ['Out/s'], ['Producers'], ['Consumers']];
  const next = new URLSearchParams(query);
  if (found.after) next.set('after', found.after);
  const begin = new URLSearchParams(query);
  begin.delete('after');
  fill(list,
    h('p', { class: 'muted' }, found.found === 1 ? 'One topic.' : `${number(found.found)} topics.`),
    found.topics.length ? table('Topics', heads, found.topics.map((topic) => [
      h('span', null, nameLink(topicLink(topic.name), shortName(topic.name)), topic.partitions ? h('span', { class: 'muted' }, ` ${topic.partitions} partitions`) : null),
      badge(topic.verdict), short(topic.subscriptions), short(topic.messages), short(topic.backlog), bytes(topic.stored_bytes),
      rate(topic.rate_in), rate(topic.rate_out), short(topic.producers), short(topic.consumers),
    ]), { class: 'stacked' }) : null,
    h('p', { class: 'pager' }, query.get('after') ? h('a', { href: `#/topics?${begin}` }, '← from the beginning') : null, ' ',
      found.after ? h('a', { href: `#/topics?${next}` }, 'further topics →') : null));
}
