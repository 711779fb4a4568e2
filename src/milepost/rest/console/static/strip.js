/* Draws one strip: columns of indexes in the colours of their states. Pure drawing; it asks for nothing. */

export const STATES = ['inflight', 'ready', 'delayed', 'acked', 'trimmed'];

/* The first index of a column, as the broker rounds it. */
export function border(strip, column) {
  return strip.first + Math.floor(((strip.end - strip.first) * column) / Math.max(strip.columns, 1));
}

export function columnOf(strip, index) {
  return Math.floor(((index - strip.first + 1) * strip.columns - 1) / (strip.end - strip.first));
}

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const found = Object.fromEntries(STATES.map((state) => [state, style.getPropertyValue(`--${state}`).trim()]));
  found.ink = style.getPropertyValue('--ink').trim();
  found.accent = style.getPropertyValue('--accent').trim();
  found.muted = style.getPropertyValue('--muted').trim();
  found.paper = style.getPropertyValue('--paper').trim();
  return found;
}

function sized(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/* A single message that is not acked among thousands that are must be seen: no state that is there is
   thinner than this. */
const LEAST = 12;
const LEAST_WIDE = 3;

function shares(counts, height) {
  const total = counts.reduce((sum, one) => sum + one, 0);
  if (!total) return counts.map(() => 0);
  const heights = counts.map((one) => (one ? Math.max((one / total) * height, LEAST) : 0));
  const over = heights.reduce((sum, one) => sum + one, 0) - height;
  if (over > 0) {
    const largest = heights.indexOf(Math.max(...heights));
    heights[largest] -= over;
  }
  return heights;
}

export function drawStrip(canvas, strip, { at = null, mark = null, marks = null } = {}) {
  const { pen, width, height } = sized(canvas);
  const paint = colours();
  const { columns } = strip;
  const cell = width / Math.max(columns, 1);
  const gap = cell >= 6 ? 1 : 0;
  for (let column = 0; column < columns; column += 1) {
    const left = Math.round(column * cell);
    const right = Math.max(Math.round((column + 1) * cell) - gap, left + 1);
    const heights = shares(STATES.map((state) => strip[state][column]), height);
    let top = 0;
    STATES.forEach((state, place) => {
      if (!heights[place]) return;
      pen.fillStyle = paint[state];
      pen.fillRect(left, top, right - left, heights[place]);
      top += heights[place];
    });
  }
  if (cell < LEAST_WIDE) drawMinorities(pen, strip, cell, height, paint);
  if (marks && cell >= 6) drawHolders(pen, strip, marks, cell, height, paint);
  if (at !== null) {
    const left = (columnOf(strip, at)) * cell;
    pen.strokeStyle = paint.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(left + 0.75, 0.75, Math.max(cell - 1.5, 2), height - 1.5);
  }
  if (mark !== null && mark >= strip.first && mark <= strip.end) {
    const x = ((mark - strip.first) / (strip.end - strip.first)) * width;
    pen.fillStyle = paint.accent;
    pen.fillRect(x - 1.5, 0, 3, height);
    pen.beginPath();
    pen.moveTo(x - 7, 0); pen.lineTo(x + 7, 0); pen.lineTo(x, 9);
    pen.fill();
  }
}

/* Narrow columns that are mostly acked, and have something that is not: wide enough to be seen. */
function drawMinorities(pen, strip, cell, height, paint) {
  for (let column = 0; column < strip.columns; column += 1) {
    if (!strip.acked[column]) continue;
    const heights = shares(STATES.map((state) => strip[state][column]), height);
    let top = 0;
    STATES.forEach((state, place) => {
      if (heights[place] && place < 3) {
        pen.fillStyle = paint[state];
        pen.fillRect(Math.round((column + 0.5) * cell - LEAST_WIDE / 2), top, LEAST_WIDE, heights[place]);
      }
      top += heights[place];
    });
  }
}

/* Who has what: the consumer's name over the messages side by side that it holds. */
function drawHolders(pen, strip, marks, cell, height, paint) {
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  let run = null;
  const end = () => {
    if (!run) return;
    const room = (run.last - run.first + 1) * cell - 8;
    const text = fit(pen, run.holder, room);
    if (text) {
      pen.fillStyle = '#221400';
      pen.fillText(text, (run.first - strip.first) * cell + 4, height / 2);
    }
  };
  for (let index = strip.first; index < strip.end; index += 1) {
    const holder = marks.get(index)?.holder || '';
    if (run && holder === run.holder && index === run.last + 1) { run.last = index; continue; }
    end();
    run = holder ? { holder, first: index, last: index } : null;
  }
  end();
}

function fit(pen, text, room) {
  if (room < 14) return '';
  if (pen.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length > 1 ? `${text.slice(0, length)}…` : '';
}

/* Round numbers, as many as fit. */
export function drawAxis(canvas, first, end, format) {
  const { pen, width, height } = sized(canvas);
  const paint = colours();
  const size = Math.max(end - first, 1);
  pen.font = '11px system-ui, sans-serif';
  const room = Math.max(pen.measureText(format(end)).width + 24, 60);
  const wanted = Math.max(size / Math.max(width / room, 1), 1);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= wanted));
  pen.fillStyle = paint.muted;
  pen.textBaseline = 'top';
  for (let tick = Math.ceil(first / step) * step; tick <= end; tick += step) {
    const x = ((tick - first) / size) * width;
    pen.fillRect(Math.min(x, width - 1), height - 5, 1, 5);
    const text = format(tick);
    const half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), 1);
  }
}

/* The whole, with the part that is seen. */
export function drawMap(canvas, strip, first, end) {
  drawStrip(canvas, strip);
  const { clientWidth: width, clientHeight: height } = canvas;
  const pen = canvas.getContext('2d');
  const paint = colours();
  const size = Math.max(strip.end - strip.first, 1);
  const left = ((first - strip.first) / size) * width;
  const right = ((end - strip.first) / size) * width;
  pen.globalAlpha = 0.72;
  pen.fillStyle = paint.paper;
  pen.fillRect(0, 0, left, height);
  pen.fillRect(right, 0, width - right, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = paint.accent;
  pen.lineWidth = 2;
  pen.strokeRect(Math.max(left, 1), 1, Math.max(Math.min(right, width - 1) - Math.max(left, 1), 3), height - 2);
}
