/* One topic: where its groups are, its messages, who is connected, schema, policies. */

import * as api from './api.js';
import { note } from './app.js';
import { age, badge, baseName, bytes, figure, fill, h, moment, nameLink, number, problem, rate, short, spark, table, terms, topicLink } from './dom.js';
import { showMessages } from './messages.js';
import { showPositions } from './positions.js';

const TABS = [
  ['positions', 'Positions'], ['messages', 'Messages'], ['clients', 'Groups and producers'], ['about', 'Schema and policies'],
];

export async function showTopic(root, asked, query, context, signal) {
  const name = `persistent://${asked.tenant}/${asked.namespace}/${asked.local}`;
  if (/-partition-\d+$/.test(asked.local)) {
    const partition = asked.local.match(/-partition-(\d+)$/)[1];
    location.replace(topicLink(baseName(name), { ...Object.fromEntries(query), partition }));
    return;
  }
  const [metadata, rights] = await Promise.all([
    api.get(api.admin(asked, '/partitions'), {}, signal),
    api.get(api.own(asked, '/rights'), {}, signal),
  ]);
  const partitions = metadata.partitions;
  const partition = partitions ? Math.min(Number(query.get('partition') || 0), partitions - 1) : -1;
  const topic = partition < 0 ? asked : { ...asked, local: `${asked.local}-partition-${partition}` };
  const tab = TABS.some(([id]) => id === query.get('tab')) ? query.get('tab') : 'positions';
  const figures = h('section', { class: 'figures', 'aria-label': 'Numbers of the topic' });
  const panel = h('section', { id: 'panel', role: 'tabpanel', 'aria-labelledby': `tab-${tab}` });
  fill(root,
    h('nav', { class: 'crumbs', 'aria-label': 'Where' },
      h('a', { href: `#/topics?namespace=${encodeURIComponent(`${asked.tenant}/${asked.namespace}`)}` }, `${asked.tenant}/${asked.namespace}`)),
    h('div', { class: 'head' }, h('h1', null, asked.local), partitions ? chooser(asked, query, partition, partitions) : null),
    figures, tabs(tab, name, query), panel);
  const parts = { asked, topic, name, partition, partitions, rights, query, context, signal, passed: passing() };
  api.poll(() => draw(figures, parts), signal, { soon: 3000, seldom: 15000 });
  await draw(figures, parts);
  put(panel, tab, parts);
}

function put(panel, tab, parts) {
  const views = { positions: showPositions, messages: showMessages, clients: showClients, about: showAbout };
  const place = h('div');
  fill(panel, place);
  views[tab](place, parts).catch((error) => {
    if (!parts.signal.aborted && error.status !== 401) fill(place, problem(error));
  });
}

function tabs(current, name, query) {
  const kept = query.get('partition') ? { partition: query.get('partition') } : {};
  return h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views of the topic', on: { keydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...event.currentTarget.children];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  } } }, TABS.map(([id, text]) => h('a', {
    role: 'tab', id: `tab-${id}`, href: topicLink(name, { ...kept, tab: id }), 'aria-selected': String(id === current),
    'aria-controls': 'panel', tabindex: id === current ? '0' : '-1',
  }, text)));
}

function chooser(asked, query, partition, partitions) {
  return h('label', { class: 'inline' }, h('span', { class: 'muted' }, 'Partition '),
    h('select', { 'aria-label': 'Partition', on: { change: (event) => {
      note({ partition: event.target.value, first: null, end: null });
      window.dispatchEvent(new HashChangeEvent('hashchange'));
    } } }, Array.from({ length: partitions }, (_, one) => h('option', { value: one, selected: one === partition }, `${one} of ${partitions}`))));
}

/* Messages a second, from the counters of two looks: what passed between them. */
function passing() {
  const rates = { in: [], out: [] };
  let before = null;
  return (stats) => {
    const now = { at: performance.now(), in: stats.msgInCounter, out: stats.msgOutCounter };
    if (before && now.at > before.at) {
      for (const way of ['in', 'out']) {
        rates[way].push(Math.max(((now[way] - before[way]) / (now.at - before.at)) * 1000, 0));
        if (rates[way].length > 60) rates[way].shift();
      }
    }
    before = now;
    return rates;
  };
}

async function draw(figures, { topic, name, partition, passed, signal }) {
  const stats = await api.get(api.admin(topic, '/stats'), {}, signal);
  const groups = Object.values(stats.subscriptions || {});
  const rates = passed(stats);
  const drawn = (way, text) => (rates[way].length > 1 ? spark(rates[way], `${text} a second while this page was open, ${rate(rates[way].at(-1))} now`) : null);
  const kept = partition >= 0 ? { partition } : {};
  const link = (tab) => topicLink(name, { ...kept, tab });
  fill(figures,
    figure(terms.many === 'entries' ? 'Entries' : 'Messages', short(stats.endIndex - stats.firstIndex), `${terms.place} ${number(stats.firstIndex)} to ${number(stats.endIndex)}`, link('messages')),
    figure('Stored', bytes(stats.storageSize), stats.terminated ? 'terminated: takes no messages' : '', link('about')),
    figure('In', `${rate(stats.msgRateIn)}/s`, `${bytes(stats.msgThroughputIn)}/s`, null, drawn('in', 'Messages in')),
    figure('Out', `${rate(stats.msgRateOut)}/s`, `${bytes(stats.msgThroughputOut)}/s`, null, drawn('out', 'Messages out')),
    figure('Groups', short(groups.length), '', link('clients')),
    figure('Producers', short((stats.publishers || []).length), '', link('clients')));
  const refusal = document.getElementById('refusal');
  if (refusal) refusal.remove();
  if (stats.refusal) figures.after(h('p', { class: 'problem', role: 'alert', id: 'refusal' }, `The topic takes no messages: ${stats.refusal}`));
  return true;
}

async function showClients(root, { topic, name, partition, signal }) {
  const [stats, progress] = await Promise.all([
    api.get(api.admin(topic, '/stats'), {}, signal), api.get(api.own(topic, '/progress'), {}, signal),
  ]);
  const kept = partition >= 0 ? { partition } : {};
  const groups = progress.subscriptions.map((line) => [
    nameLink(topicLink(name, { ...kept, group: line.subscription }), line.subscription, line.member ? ` · ${line.member}` : ''),
    badge(line.verdict), line.type || '–', short(line.backlog), short(line.ready), short(line.inflight), short(line.delayed),
    short(line.acked), short(line.holes), line.backlog ? age(line.behind_ms) : '–', rate(line.rate_acked), h('span', { class: 'why' }, line.reason),
  ]);
  const consumers = progress.subscriptions.flatMap((line) => line.consumers.map((one) => [
    one.name, line.subscription, one.address, one.client_version, short(one.inflight), short(one.permits),
    short(one.messages_out), short(one.messages_acked), short(one.messages_redelivered), moment(one.connected_since_ms),
  ]));
  const producers = (stats.publishers || []).map((one) => [
    one.producerName, one.address.replace(/^\//, ''), one.clientVersion, one.accessMode, rate(one.msgRateIn), bytes(one.averageMsgSize),
  ]);
  fill(root,
    h('h2', null, 'Groups'), groups.length ? table('Groups', ['Group', 'Verdict', 'Type', ['Backlog'], ['Ready'], ['Inflight'], ['Delayed'], ['Acked'], ['Holes'], ['Behind'], ['Acked/s'], 'Why'], groups, { class: 'stacked' }) : none('No group reads this topic.'),
    h('h2', null, 'Consumers'), consumers.length ? table('Consumers', ['Consumer', 'Group', 'Address', 'Client', ['Inflight'], ['Permits'], ['Sent'], ['Acked'], ['Again'], 'Since'], consumers, { class: 'stacked' }) : none('No consumer is connected.'),
    h('h2', null, 'Producers'), producers.length ? table('Producers', ['Producer', 'Address', 'Client', 'Access', ['In/s'], ['Mean size']], producers, { class: 'stacked' }) : none('No producer is connected.'));
}

async function showAbout(root, { asked, topic, partitions, rights, signal }) {
  const path = `admin/v2/schemas/${[asked.tenant, asked.namespace, asked.local].map(encodeURIComponent).join('/')}/schemas`;
  const [schemas, policies, internal] = await Promise.all([
    api.get(path, {}, signal).catch((error) => ({ error })),
    rights.administer ? api.get(api.own(asked, '/policies'), {}, signal) : null,
    api.get(api.admin(topic, '/internalStats'), {}, signal),
  ]);
  const versions = (schemas.getSchemaResponses || []).map((one) => h('details', { class: 'schema' },
    h('summary', null, `Version ${one.version} · ${one.type}`, one.timestamp ? [' · ', moment(one.timestamp)] : null),
    h('pre', { tabindex: '0' }, pretty(one.data))));
  const ledgers = (internal.ledgers || []).map((one) => [String(one.ledgerId), short(one.entries), bytes(one.size), one.timestamp ? moment(one.timestamp) : '–']);
  fill(root,
    h('h2', null, 'Schema'), versions.length ? versions : none('No schema is registered: payloads are bytes.'),
    h('h2', null, 'Policies that hold'),
    policies === null ? none('Your role may not see policies.') : table('Policies', ['Policy', 'Value', 'Set by', 'Meaning'], order(policies).map((one) => [
      one.name.replaceAll('_', ' '), h('code', null, JSON.stringify(one.value)), h('span', { class: `source ${one.source}` }, one.source), h('span', { class: 'why' }, one.doc),
    ]), { class: 'stacked' }),
    h('h2', null, 'Ledgers'), h('p', { class: 'muted' }, partitions ? 'Of this partition.' : ''),
    ledgers.length ? table('Ledgers', ['Ledger', ['Entries'], ['Size'], 'Closed'], ledgers) : none('Nothing is stored.'));
}

const none = (text) => h('p', { class: 'muted' }, text);

function order(policies) {
  const place = { topic: 0, namespace: 1, broker: 2 };
  return [...policies].sort((one, other) => place[one.source] - place[other.source] || one.name.localeCompare(other.name));
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
