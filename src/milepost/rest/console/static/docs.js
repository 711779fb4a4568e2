/* Every route of the broker, from its own description of them: openapi.json. */

import * as api from './api.js';
import { fill, h, plural, problem, say, table } from './dom.js';

const main = document.getElementById('main');
const DEPTH = 4;

/* One operation, and the text in which a search looks for words. */
function operations(described) {
  const found = [];
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, told] of Object.entries(methods)) {
      const tag = (told.tags || ['other'])[0];
      const text = [method, path, tag, told.description || told.summary || ''].join(' ').toLowerCase();
      found.push({ path, method: method.toUpperCase(), told, tag, text });
    }
  }
  return found;
}

function resolved(described, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return described.components.schemas[schema.$ref.split('/').pop()] || {};
}

/* What a schema allows, in a few words. */
function typeOf(described, schema) {
  if (!schema) return 'anything';
  if (schema.$ref) return schema.$ref.split('/').pop();
  const choices = schema.anyOf || schema.oneOf || schema.allOf;
  if (choices) return choices.map((one) => typeOf(described, one)).join(' or ');
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(', ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === 'array') return `list of ${typeOf(described, schema.items)}`;
  if (schema.type === 'object' && schema.additionalProperties) {
    return `${typeOf(described, schema.additionalProperties === true ? null : schema.additionalProperties)} by name`;
  }
  const bounds = [
    schema.minimum !== undefined ? `from ${schema.minimum}` : null,
    schema.maximum !== undefined ? `to ${schema.maximum}` : null,
  ].filter(Boolean).join(' ');
  return [schema.type || 'anything', schema.format ? `(${schema.format})` : '', bounds].filter(Boolean).join(' ');
}

/* The fields of an object, those of objects in it below it. */
function fieldRows(described, schema, prefix = '', depth = 0, seen = []) {
  const name = schema && schema.$ref;
  if (name && seen.includes(name)) return [];
  const one = resolved(described, schema);
  if (one.type === 'array') return fieldRows(described, one.items, `${prefix}[]`, depth, seen);
  const choices = (one.anyOf || one.oneOf || []).filter((choice) => choice.type !== 'null');
  if (choices.length === 1) return fieldRows(described, choices[0], prefix, depth, seen);
  return Object.entries(one.properties || {}).flatMap(([field, inner]) => {
    const path = prefix ? `${prefix}.${field}` : field;
    const row = [h('code', null, path), typeOf(described, inner), (one.required || []).includes(field) ? 'yes' : ''];
    return [row, ...(depth < DEPTH ? fieldRows(described, inner, path, depth + 1, name ? [...seen, name] : seen) : [])];
  });
}

function body(described, title, content) {
  return Object.entries(content || {}).map(([kind, { schema }]) => {
    const rows = fieldRows(described, schema);
    const words = `${title}: ${typeOf(described, schema)} (${kind})`;
    return [h('p', null, words), rows.length ? table(words, ['Field', 'Type', 'Always'], rows) : null];
  });
}

function shown(described, one) {
  const { told } = one;
  const parameters = (told.parameters || []).map((parameter) => [
    h('code', null, parameter.name), parameter.in, typeOf(described, parameter.schema),
    parameter.required ? 'yes' : '', parameter.schema && parameter.schema.default !== undefined ? JSON.stringify(parameter.schema.default) : '',
  ]);
  return [
    told.description ? h('p', null, told.description) : null,
    parameters.length ? table(`Parameters of ${one.method} ${one.path}`, ['Parameter', 'In', 'Type', 'Needed', 'Default'], parameters) : null,
    told.requestBody ? body(described, 'Body', told.requestBody.content) : null,
    Object.entries(told.responses || {}).filter(([status]) => !/XX$/.test(status))
      .map(([status, answer]) => [answer.content ? body(described, status, answer.content) : h('p', null, `${status}: ${answer.description}`)]),
  ];
}

function entry(described, one) {
  const inside = h('div', { class: 'route' });
  const element = h('details', { class: 'described', on: {
    // Most are never opened, and their tables are long.
    toggle: () => { if (element.open && !inside.firstChild) fill(inside, shown(described, one)); },
  } }, h('summary', null, h('span', { class: 'method' }, one.method), ' ', h('code', null, one.path)), inside);
  return element;
}

function draw(described) {
  const all = operations(described);
  const list = h('div', { id: 'routes' });
  const search = h('input', { type: 'search', 'aria-label': 'Find a route', placeholder: 'Find a route', on: {
    input: () => { find(); say(`${plural(list.querySelectorAll('details').length, 'route')}`); },
  } });
  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((one) => words.every((word) => one.text.includes(word)));
    const tags = [...new Set(found.map((one) => one.tag))];
    fill(list, tags.map((tag) => [
      h('h2', null, tag), found.filter((one) => one.tag === tag).map((one) => entry(described, one)),
    ]), found.length ? null : h('p', { class: 'muted' }, 'No route has these words.'));
  }
  fill(main, h('div', { class: 'head' }, h('h1', null, `REST of Milepost ${described.info.version}`), search),
    h('p', { class: 'muted' }, 'Errors are a status and {"reason": "…"}.'),
    h('p', null, h('a', { href: '../openapi.json' }, 'openapi.json, for programs')),
    list);
  find();
}

try {
  draw(await api.get('openapi.json'));
} catch (error) {
  fill(main, problem(error));
}
