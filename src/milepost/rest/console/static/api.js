/* The broker's REST, below whatever prefix this page is served under. Credentials stay in this tab. */

const base = new URL('../', document.baseURI);
const KEPT = 'milepost.credentials';

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export function credentials() {
  return JSON.parse(sessionStorage.getItem(KEPT) || 'null');
}

export function signIn(found) {
  sessionStorage.setItem(KEPT, JSON.stringify(found));
}

export function signOut() {
  sessionStorage.removeItem(KEPT);
}

function authorization() {
  const found = credentials();
  if (!found) return {};
  if (found.token) return { authorization: `Bearer ${found.token}` };
  const pair = new TextEncoder().encode(`${found.user}:${found.password}`);
  return { authorization: `Basic ${btoa(String.fromCharCode(...pair))}` };
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(new URL(path.replace(/^\//, ''), base), {
      credentials: 'omit', cache: 'no-store', redirect: 'error', ...options,
      headers: { ...authorization(), ...(options.headers || {}) },
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'the broker does not answer');
  }
  if (!answer.ok) {
    const text = await answer.text();
    let reason = text;
    try { reason = JSON.parse(text).reason || text; } catch { /* not the broker's own words */ }
    if (answer.status === 401) document.dispatchEvent(new CustomEvent('signed-out', { detail: reason }));
    throw new Refused(answer.status, reason || answer.statusText);
  }
  return answer;
}

export async function get(path, query, signal) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== '') asked.set(name, value);
  }
  const tail = asked.toString();
  // What another person was told within the last second will do: counting it costs those who publish.
  const headers = { 'cache-control': 'max-age=1' };
  const answer = await call(tail ? `${path}?${tail}` : path, { signal, headers });
  return answer.status === 204 ? null : answer.json();
}

export async function payload(path, signal) {
  return new Uint8Array(await (await call(path, { signal })).arrayBuffer());
}

export async function post(path, body, signal) {
  const answer = await call(path, {
    method: 'POST', body: JSON.stringify(body), signal,
    // Who asks, for brokers whose console is read only.
    headers: { 'content-type': 'application/json', 'x-milepost-console': 'page' },
  });
  return answer.status === 204 ? null : answer.json();
}

/* The longest time between two tries, while the broker does not answer. */
const AWAY_MAX = 5000;
function tell(reason) {
  document.dispatchEvent(new CustomEvent('stale', { detail: reason }));
}

export const own = (topic, tail) => (
  `milepost/v1/topics/${[topic.tenant, topic.namespace, topic.local].map(encodeURIComponent).join('/')}${tail || ''}`
);

export const admin = (topic, tail) => (
  `admin/v2/${topic.domain}/${[topic.tenant, topic.namespace, topic.local].map(encodeURIComponent).join('/')}${tail || ''}`
);

/* Ask again and again: soon while things change, seldom while they do not, never while the tab is hidden.
   `step` says whether something changed. What fails is said in the page: numbers that stand still because the
   broker is away must not look like a broker at rest. */
export function poll(step, signal, { soon = 1000, seldom = 10000 } = {}) {
  let wait = soon;
  const visible = () => new Promise((resolve) => {
    if (!document.hidden) { resolve(); return; }
    const seen = () => {
      if (document.hidden) return;
      document.removeEventListener('visibilitychange', seen);
      resolve();
    };
    document.addEventListener('visibilitychange', seen);
  });
  const pause = (milliseconds) => new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
  (async () => {
    while (!signal.aborted) {
      await pause(wait);
      await visible();
      if (signal.aborted) return;
      try {
        wait = (await step()) ? soon : Math.min(wait * 1.5, seldom);
        tell('');
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
        tell(error.message);
        // Soon enough for a person who waits for a broker that restarts.
        wait = Math.min(Math.max(wait * 1.5, soon), AWAY_MAX);
      }
    }
  })();
}
