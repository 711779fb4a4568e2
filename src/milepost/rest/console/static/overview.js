/* What is in trouble first; then how much there is and how fast it goes. */

import * as api from './api.js';
import { age, badge, baseName, bytes, figure, fill, h, isPulsar, nameLink, number, plural, rate, short, shortName, table, terms, topicLink } from './dom.js';
import { note } from './app.js';

const PAGE = 25;

export async function showOverview(root, query, context, signal) {
  const { session } = context;
  const namespace = query.get('namespace') || (session.is_superuser ? '' : session.namespaces[0] || '');
  if (!namespace && !session.is_superuser) {
    fill(root, h('h1', null, 'Overview'), isPulsar() ? asking() : h('p', null, 'Your role may look into no namespace.'));
    return;
  }
  const path = namespace ? `milepost/v1/namespaces/${namespace.split('/').map(encodeURIComponent).join('/')}/overview` : 'milepost/v1/overview';
  const skip = Number(query.get('skip') || 0);
  const figures = h('section', { class: 'figures', 'aria-label': 'Numbers' });
  const verdicts = h('p', { class: 'verdicts' });
  const lines = h('section', { 'aria-label': 'Groups, the most troubled first' });
  const heading = h('h1', null, 'Overview');
  fill(root, h('div', { class: 'head' }, heading, chooser(session, namespace)), verdicts, figures, lines);
  let before = '';

  async function step() {
    const found = await api.get(path, { skip, limit: PAGE }, signal);
    const text = JSON.stringify({ ...found, at_ms: 0 });
    if (text === before) return false;
    before = text;
    draw(found);
    return true;
  }

  function draw(found) {
    const inTrouble = found.in_trouble
      ? h('strong', { class: 'bad-text' }, `${plural(found.in_trouble, 'group')} in trouble`)
      : h('strong', { class: 'well-text' }, found.subscriptions ? 'No group is in trouble' : 'There are no groups yet');
    fill(verdicts, inTrouble, Object.entries(found.verdicts).map(([verdict, count]) => [' ', badge(verdict, count)]),
      found.is_complete ? null : h('span', { class: 'muted' }, ` · ${number(found.topics_seen)} of ${number(found.topics)} topics looked at so far`));
    const used = found.disk ? 1 - found.disk.free_bytes / found.disk.size_bytes : 0;
    fill(figures,
      figure('Topics', short(found.topics), 'partitions counted each', '#/topics'),
      figure('Groups', short(found.subscriptions), plural(found.consumers, 'consumer'), '#/topics'),
      figure('Backlog', short(found.backlog), `${terms.many} not acked`, '#/topics'),
      figure('In', `${rate(found.rates.messages_in)}/s`, `${bytes(found.rates.bytes_in)}/s`, '#/topics'),
      figure('Out', `${rate(found.rates.messages_out)}/s`, `${bytes(found.rates.bytes_out)}/s`, '#/topics'),
      figure('Stored', bytes(found.stored_bytes), found.disk ? `${bytes(found.disk.free_bytes)} free of the disk (${Math.round(used * 100)} % used)` : ''),
      figure('Connections', short(found.connections), plural(found.producers, 'producer')));
    fill(lines, h('h2', null, 'Groups, the most troubled first'),
      found.lines.length ? groups(found.lines) : h('p', { class: 'muted' }, 'Nothing to show: no topic here has a subscription.'),
      pager(skip, found.lines.length, Math.min(found.subscriptions, 1000), query));
  }

  await step();
  api.poll(step, signal, { soon: 2000, seldom: 15000 });
}

/* A broker that does not tell which namespaces a role may look into is told one. */
function asking() {
  const input = h('input', { 'aria-label': 'Namespace', placeholder: 'tenant/namespace', required: true });
  return h('form', { class: 'filter', on: { submit: (event) => {
    event.preventDefault();
    location.hash = `#/?${new URLSearchParams({ namespace: input.value.trim() })}`;
  } } }, h('span', null, 'Which namespaces your role may look into is not told. Name one: '), input, h('button', { class: 'main' }, 'Look'));
}

function chooser(session, namespace) {
  const known = session.namespaces.includes(namespace) || !namespace ? session.namespaces : [namespace, ...session.namespaces];
  const options = session.is_superuser ? ['', ...known] : known;
  return h('label', { class: 'inline' }, h('span', { class: 'muted' }, 'Namespace '),
    h('select', { 'aria-label': 'Namespace', on: { change: (event) => {
      note({ namespace: event.target.value, skip: null });
      window.dispatchEvent(new HashChangeEvent('hashchange'));
    } } }, options.map((one) => h('option', { value: one, selected: one === namespace }, one || 'all'))));
}

function groups(lines) {
  const heads = ['Verdict', 'Group', 'Topic', 'Why', ['Backlog'], ['Inflight'], ['Behind'], ['Acked/s'], ['In/s']];
  return table('Groups, the most troubled first', heads, lines.map((line) => {
    const link = topicLink(baseName(line.topic), { group: line.subscription, ...(line.partition >= 0 ? { partition: line.partition } : {}) });
    return [
      badge(line.verdict), nameLink(link, line.subscription),
      nameLink(topicLink(baseName(line.topic), line.partition >= 0 ? { partition: line.partition } : {}), shortName(line.topic)),
      h('span', { class: 'why' }, line.reason), short(line.backlog), short(line.inflight),
      line.backlog ? age(line.behind_ms) : '–', rate(line.rate_acked), rate(line.rate_in),
    ];
  }), { class: 'stacked' });
}

function pager(skip, shown, all, query) {
  if (skip === 0 && shown < PAGE) return null;
  const link = (to, text) => {
    const asked = new URLSearchParams(query);
    asked.set('skip', to);
    return h('a', { href: `#/?${asked}` }, text);
  };
  return h('p', { class: 'pager' }, skip > 0 ? link(Math.max(skip - PAGE, 0), '← more troubled') : null,
    h('span', { class: 'muted' }, ` ${number(skip + 1)} to ${number(skip + shown)} of ${number(all)} `),
    shown === PAGE && skip + PAGE < all ? link(skip + PAGE, 'less troubled →') : null);
}
