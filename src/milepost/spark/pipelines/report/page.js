// Draws the charts of the report from the numbers in the page. Nothing is loaded, and names are text only.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = ["#4a7fc1", "#d1793b", "#3f9b6c", "#b8474c", "#8a6fb5", "#8c6d57", "#c26aa0", "#7a8490"];
  const STATES = [["acked", "acked"], ["inflight", "inflight"], ["ready", "ready"], ["delayed", "delayed"]];
  const SVG = "http://www.w3.org/2000/svg";
  const whole = [data.first_ms, Math.max(data.last_ms, data.first_ms + 1)];
  let view = whole.slice();
  const charts = [];

  const make = (name, attributes = {}, text = "") => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return node;
  };

  const count = (value) => Math.round(value).toLocaleString();
  const words = (ms) => {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    const seconds = ms / 1000;
    if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
    const units = [["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const at = units.findIndex(([, size]) => seconds >= size);
    const [unit, size] = units[at];
    const many = Math.floor(seconds / size);
    const [next, less] = units[Math.min(at + 1, 3)];
    const rest = Math.floor((seconds - many * size) / less);
    const name = unit === "day" && many !== 1 ? "days" : unit;
    return rest ? `${many} ${name} ${rest} ${next}` : `${many} ${name}`;
  };
  const moment = (ms) => new Date(ms).toLocaleString();
  const hour = (ms) => new Date(ms).toLocaleTimeString();

  // Round numbers between 0 and the highest; of times those that clocks have, such as a quarter of an hour.
  const CLOCK = [1, 2, 5, 10, 15, 30].flatMap((one) => [one * 1000, one * 60000])
    .concat([1, 2, 3, 6, 12].map((one) => one * 3600000)).sort((a, b) => a - b);
  const steps = (high, many, isTime) => {
    const rough = high / many;
    const unit = isTime && rough > 43200000 ? 86400000 : 1;
    const power = unit * 10 ** Math.floor(Math.log10(rough / unit));
    const round = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const step = (isTime && rough > 500 && CLOCK.find((one) => one >= rough)) || round;
    const found = [];
    for (let at = 0; at <= high; at += step) found.push(at);
    return found;
  };

  const show = (from, to) => {
    const least = Math.max((whole[1] - whole[0]) / 2000, 2);
    const width = Math.min(Math.max(to - from, least), whole[1] - whole[0]);
    const begin = Math.min(Math.max(from, whole[0]), whole[1] - width);
    view = [begin, begin + width];
    charts.forEach((draw) => draw());
  };
  const zoom = (factor, around) => show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
  const pan = (share) => show(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));

  const nearest = (points, at) => {
    let best = null;
    for (const point of points) if (best === null || Math.abs(point.at_ms - at) < Math.abs(best.at_ms - at)) best = point;
    return best;
  };

  const frame = (place, height, title, drawInside, tell) => {
    const svg = make("svg", { height, tabindex: 0, role: "img", "aria-label": title });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    place.append(svg, tip);
    const cross = make("line", { class: "cross" });
    let area = null;
    const draw = () => {
      const width = Math.max(place.clientWidth, 240);
      const beside = width > 640 ? 190 : 12;
      area = { left: 64, right: width - beside, top: 10, bottom: height - 24, beside };
      area.x = (ms) => area.left + ((ms - view[0]) / (view[1] - view[0])) * (area.right - area.left);
      area.ms = (x) => view[0] + ((x - area.left) / (area.right - area.left)) * (view[1] - view[0]);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren();
      const many = Math.max(2, Math.floor((area.right - area.left) / 130));
      for (let n = 0; n <= many; n += 1) {
        const ms = view[0] + ((view[1] - view[0]) * n) / many;
        const anchor = n === 0 ? "start" : n === many ? "end" : "middle";
        svg.append(make("text", { x: area.x(ms), y: height - 6, class: "axis", "text-anchor": anchor }, hour(ms)));
      }
      drawInside(svg, area);
      cross.setAttribute("visibility", "hidden");
      svg.append(cross);
    };
    const hover = (event) => {
      const box = svg.getBoundingClientRect();
      const x = event.clientX - box.left;
      if (x < area.left || x > area.right) { leave(); return; }
      const told = tell(area.ms(x));
      if (!told) { leave(); return; }
      const at = area.x(told.at_ms);
      for (const [key, value] of [["x1", at], ["x2", at], ["y1", area.top], ["y2", area.bottom]]) cross.setAttribute(key, value);
      cross.setAttribute("visibility", "visible");
      tip.replaceChildren(document.createTextNode(moment(told.at_ms)));
      for (const [colour, text] of told.lines) {
        const line = document.createElement("div");
        const mark = document.createElement("i");
        mark.style.background = colour;
        line.append(mark, text);
        tip.append(line);
      }
      tip.hidden = false;
      tip.style.left = `${Math.min(at + 12, Math.max(place.clientWidth - tip.offsetWidth, 0))}px`;
      tip.style.top = "12px";
    };
    const leave = () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); };
    let grip = null;
    svg.addEventListener("pointermove", (event) => {
      if (grip !== null) {
        const moved = area.ms(grip) - area.ms(event.clientX);
        grip = event.clientX;
        show(view[0] + moved, view[1] + moved);
      } else hover(event);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointerdown", (event) => { grip = event.clientX; leave(); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", () => { grip = null; });
    svg.addEventListener("pointercancel", () => { grip = null; });
    svg.addEventListener("dblclick", () => show(...whole));
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, area.ms(event.clientX - svg.getBoundingClientRect().left));
    }, { passive: false });
    svg.addEventListener("keydown", (event) => {
      const middle = (view[0] + view[1]) / 2;
      const keys = {
        "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
        ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), Home: () => show(...whole), Escape: leave,
      };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    charts.push(draw);
    draw();
  };

  // A name beside its line: the colour is a mark, and the text is as dark as other text.
  const legend = (svg, x, y, colour, text) => {
    svg.append(make("rect", { x, y: y - 8, width: 9, height: 9, rx: 2, style: `fill: ${colour}` }));
    svg.append(make("text", { x: x + 14, y, class: "label" }, text));
  };

  const within = (points) => points.filter((one) => one.at_ms >= view[0] && one.at_ms <= view[1]);

  const axis = (svg, area, high, format) => {
    const y = (value) => area.bottom - (value / high) * (area.bottom - area.top);
    for (const value of steps(high, 4, format === words)) {
      svg.append(make("line", { x1: area.left, x2: area.right, y1: y(value), y2: y(value), class: "grid" }));
      svg.append(make("text", { x: area.left - 6, y: y(value) + 4, class: "axis", "text-anchor": "end" }, format(value)));
    }
    return y;
  };

  const lines = (place) => {
    const column = place.dataset.column;
    const format = column.endsWith("_ms") ? words : count;
    const highest = (one) => Math.max(...one.points.map((point) => point[column]));
    const key = document.createElement("p");
    key.className = "key";
    const shown = data.groups.slice().sort((a, b) => highest(b) - highest(a)).slice(0, COLOURS.length);
    shown.forEach((one, n) => {
      const entry = document.createElement("span");
      const mark = document.createElement("i");
      mark.style.background = COLOURS[n];
      entry.append(mark, one.label);
      key.append(entry);
    });
    frame(place, 230, place.dataset.title, (svg, area) => {
      const high = Math.max(1, ...shown.flatMap((one) => within(one.points).map((point) => point[column])));
      const y = axis(svg, area, high, format);
      const labels = [];
      shown.forEach((one, n) => {
        const points = within(one.points);
        if (!points.length) return;
        const path = points.map((point) => `${area.x(point.at_ms).toFixed(1)},${y(point[column]).toFixed(1)}`).join(" ");
        svg.append(make("polyline", { points: path, fill: "none", stroke: COLOURS[n], "stroke-width": 1.6 }));
        if (points.length < 60) {
          for (const point of points) svg.append(make("circle", { cx: area.x(point.at_ms), cy: y(point[column]), r: 2, fill: COLOURS[n] }));
        }
        labels.push({ y: y(points[points.length - 1][column]), colour: COLOURS[n], text: one.label });
      });
      // Names stand beside the ends of their lines, and do not cover one another.
      labels.sort((a, b) => a.y - b.y);
      let above = area.top;
      for (const label of labels) {
        label.y = Math.max(label.y, above);
        above = label.y + 13;
      }
      const over = Math.max(0, above - 13 - area.bottom);
      for (const label of labels) {
        if (area.beside > 100) {
          const text = label.text.length > 28 ? `${label.text.slice(0, 27)}…` : label.text;
          legend(svg, area.right + 8, label.y - over + 4, label.colour, text);
        }
      }
      // Where there is no room beside the lines, names stand below.
      key.hidden = area.beside > 100;
      place.append(key);
    }, (ms) => {
      const points = shown.map((one) => nearest(one.points, ms));
      const first = points.filter(Boolean).sort((a, b) => Math.abs(a.at_ms - ms) - Math.abs(b.at_ms - ms))[0];
      if (!first) return null;
      return { at_ms: first.at_ms, lines: shown.map((one, n) => [COLOURS[n], points[n] ? `${one.label}: ${format(points[n][column])}` : one.label]) };
    });
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const bands = (point) => {
    const behind = point.end - point.mark_delete;
    const waiting = point.strip_inflight + point.strip_ready + point.strip_delayed;
    return [point.mark_delete - point.first + behind - waiting, point.strip_inflight, point.strip_ready, point.strip_delayed];
  };

  const strips = (place) => {
    const one = data.groups[Number(place.dataset.group)];
    frame(place, 130, `positions of ${one.label}`, (svg, area) => {
      const points = within(one.points);
      const high = Math.max(1, ...points.map((point) => point.end - point.first));
      const y = axis(svg, area, high, count);
      let below = points.map(() => 0);
      STATES.forEach(([name], n) => {
        const above = points.map((point, at) => below[at] + bands(point)[n]);
        const top = points.map((point, at) => `${area.x(point.at_ms).toFixed(1)},${y(above[at]).toFixed(1)}`);
        const bottom = points.map((point, at) => `${area.x(point.at_ms).toFixed(1)},${y(below[at]).toFixed(1)}`).reverse();
        svg.append(make("polygon", { points: [...top, ...bottom].join(" "), fill: `var(--${name})`, class: name }));
        below = above;
      });
      if (points.length && area.beside > 100) {
        const last = points[points.length - 1];
        STATES.forEach(([name, text], n) => {
          const row = STATES.length - 1 - n;
          legend(svg, area.right + 8, area.top + 12 + row * 15, `var(--${name})`, `${text} ${count(bands(last)[n])}`);
        });
      }
    }, (ms) => {
      const point = nearest(one.points, ms);
      if (!point) return null;
      const told = STATES.map(([name, text], n) => [colour(name), `${text}: ${count(bands(point)[n])}`]);
      return { at_ms: point.at_ms, lines: [...told, ["transparent", `behind ${words(point.behind_ms)}`]] };
    });
  };

  document.querySelectorAll(".chart[data-column]").forEach(lines);
  document.querySelectorAll(".chart[data-group]").forEach(strips);
  let due = 0;
  addEventListener("resize", () => { cancelAnimationFrame(due); due = requestAnimationFrame(() => charts.forEach((draw) => draw())); });
})();
