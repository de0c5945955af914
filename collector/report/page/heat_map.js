// SPDX-License-Identifier: MIT
// A column a second, 50 rows of 20 ms, coloured by the worst millisecond in it. Where there is room for it
// each cell is divided into its milliseconds.

import { drawAxis } from "./axis.js";
import { color, hatch, prepare, ramp } from "./canvas.js";
import { METRICS, isMeasured, lowerBound, series } from "./data.js";
import { change, onChange, state } from "./state.js";
import { clockMs, element, number } from "./text.js";
import { hideTip, showTip } from "./tip.js";

const ROW_MS = 20, ROWS = 50, LEFT = 44;

export function heatMap(data, zone) {
  const canvas = document.getElementById("cells");
  const under = document.getElementById("under");
  const axis = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  axis.setAttribute("class", "axis");
  under.before(axis);
  const known = new Map(); // "metric whose" -> values

  const valuesOf = (metric, whose) => {
    const key = `${metric} ${whose}`;
    if (!known.has(key)) {
      if (known.size > 12) known.clear();
      known.set(key, series(data, metric, whose));
    }
    return known.get(key);
  };
  // The page may begin within a second.
  const lead = ((Math.round(data.from_ms) % 1000) + 1000) % 1000;
  const columns = () => {
    const first = Math.floor((state.viewFrom + lead) / 1000), last = Math.ceil((state.viewTo + lead) / 1000);
    return { first, nr: Math.max(1, last - first) };
  };
  const rowHeight = () => Math.max(3, Math.min(6, Math.floor(window.innerHeight / 190)));

  function mostOf(values) {
    if (!values) return 1;
    if (state.metric === "cpu" && state.whose < 0) return data.cpus;
    let most = 0;
    for (let i = Math.max(0, Math.floor(state.viewFrom)); i < Math.min(values.length, state.viewTo); i++)
      if (values[i] > most) most = values[i];
    return most || 1;
  }

  function draw() {
    const height = rowHeight();
    const { context, width } = prepare(canvas, height * ROWS);
    const values = valuesOf(state.metric, state.whose);
    const { first, nr } = columns();
    const columnWidth = (width - LEFT) / nr;
    const most = mostOf(values);
    const colorOf = ramp(), unknown = hatch(context), ground = color("panel");
    const fine = columnWidth >= 60;
    for (let column = 0; column < nr; column++) {
      for (let row = 0; row < ROWS; row++) {
        const at = (first + column) * 1000 + row * ROW_MS - lead;
        const x = LEFT + column * columnWidth, y = row * height;
        const parts = fine ? ROW_MS : 1, per = ROW_MS / parts, partWidth = columnWidth / parts;
        for (let part = 0; part < parts; part++) {
          let worst = -1;
          let missing = 0;
          for (let ms = at + part * per; ms < at + (part + 1) * per; ms++) {
            if (ms < 0 || ms >= data.ms) continue;
            if (!data.machine.recorded[ms]) missing++;
            else if (values && values[ms] > worst) worst = values[ms];
          }
          const left = x + part * partWidth;
          const wide = Math.max(0.5, partWidth - (fine ? 0 : columnWidth > 4 ? 0.5 : 0));
          if (worst < 0) {
            if (missing === 0 && values) continue; // outside of the page
            if (at + (part + 1) * per <= 0 || at >= data.ms) continue;
            context.fillStyle = unknown;
          } else {
            // Little is to be seen beside much.
            context.fillStyle = worst === 0 ? ground : colorOf(0.06 + 0.94 * Math.sqrt(worst / most));
          }
          context.fillRect(left, y, wide, height - (height > 3 ? 0.5 : 0));
          if (worst >= 0 && missing) { // some of it was not recorded
            context.fillStyle = unknown;
            context.fillRect(left, y, wide, height);
          }
        }
      }
    }
    context.fillStyle = color("faint");
    context.font = "11px system-ui, sans-serif";
    for (const row of [0, 10, 20, 30, 40])
      context.fillText(`${row * ROW_MS}`.padStart(3), 4, Math.min(ROWS * height - 2, row * height + 9));
    if (state.to > state.from) {
      context.strokeStyle = color("chosen");
      context.lineWidth = 2;
      for (let column = 0; column < nr; column++) {
        const begin = (first + column) * 1000 - lead;
        const from = Math.max(state.from, begin), to = Math.min(state.to, begin + 1000);
        if (from >= to) continue;
        const top = ((from - begin) / ROW_MS) * height, bottom = ((to - begin) / ROW_MS) * height;
        context.strokeRect(LEFT + column * columnWidth, top, Math.max(2, columnWidth), Math.max(2, bottom - top));
      }
    }
    drawAxis(axis, data.from_ms - lead + first * 1000, data.from_ms - lead + (first + nr) * 1000, LEFT, width - LEFT, zone);
    drawScale(most);
    under.textContent = `down a column: ms within the second; across: time (${zone}). A cell is the worst millisecond of 20` +
      (fine ? ", divided into its milliseconds" : "") + "; hatched: not recorded or not measured. Drag to select, wheel to zoom." +
      (state.whose >= 0 && data.processes[state.whose].coarse ? " This process is known in steps of 20 ms only." : "");
  }

  function drawScale(most) {
    const place = document.getElementById("scale");
    const bar = element("canvas");
    place.replaceChildren("0 ", bar, ` ${number(most)} ${METRICS[state.metric].unit}`);
    const { context, width, height } = prepare(bar, 10);
    const colorOf = ramp();
    for (let x = 0; x < width; x++) {
      context.fillStyle = colorOf(0.06 + 0.94 * Math.sqrt(x / width));
      context.fillRect(x, 0, 1, height);
    }
  }

  // The cell that is at a place of the screen, in ms from the page's beginning.
  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const { first, nr } = columns();
    const columnWidth = (box.width - LEFT) / nr;
    const x = event.clientX - box.left - LEFT, y = event.clientY - box.top;
    const column = Math.max(0, Math.min(nr - 1, Math.floor(x / columnWidth)));
    const row = Math.max(0, Math.min(ROWS - 1, Math.floor(y / rowHeight())));
    let from = (first + column) * 1000 + row * ROW_MS - lead;
    if (columnWidth >= 60) {
      from += Math.max(0, Math.min(ROW_MS - 1, Math.floor(((x - column * columnWidth) / columnWidth) * ROW_MS)));
      return { from, to: from + 1 };
    }
    return { from, to: from + ROW_MS };
  }

  function tellCell(event) {
    const { from, to } = cellAt(event);
    const values = valuesOf(state.metric, state.whose);
    let worst = -1, at = from;
    for (let ms = Math.max(0, from); ms < Math.min(data.ms, to); ms++)
      if (data.machine.recorded[ms] && values && values[ms] > worst) [worst, at] = [values[ms], ms];
    const lines = [`${clockMs(data.from_ms + at, zone)}  (${clockMs(data.from_ms + at, "UTC")} UTC)`];
    if (worst < 0) lines.push(values ? "not recorded" : "not measured");
    else lines.push(`${METRICS[state.metric].name}: ${number(worst)} ${METRICS[state.metric].unit}`);
    if (worst > 0 && state.whose < 0 && (state.metric === "wait" || state.metric === "cpu")) {
      const most = [];
      for (const process of data.processes) {
        const rows = process.fine || process.near;
        if (!rows) continue;
        const low = lowerBound(rows.at, at);
        if (rows.at[low] === at && rows[state.metric][low]) most.push([rows[state.metric][low] * data.stepMs, process.label]);
      }
      most.sort((a, b) => b[0] - a[0]);
      for (const [value, label] of most.slice(0, 4)) lines.push(`  ${number(value).padStart(5)}  ${label}`);
    }
    showTip(event, lines.join("\n"));
  }

  let dragFrom = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragFrom = cellAt(event);
    canvas.setPointerCapture(event.pointerId);
    change({ from: Math.max(0, dragFrom.from), to: Math.min(data.ms, dragFrom.to) });
  });
  canvas.addEventListener("pointermove", (event) => {
    tellCell(event);
    if (!dragFrom) return;
    const now = cellAt(event);
    change({
      from: Math.max(0, Math.min(dragFrom.from, now.from)),
      to: Math.min(data.ms, Math.max(dragFrom.to, now.to)),
    });
  });
  canvas.addEventListener("pointerup", () => { dragFrom = null; });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { from } = cellAt(event);
    zoom(event.deltaY > 0 ? 1.5 : 1 / 1.5, from);
  }, { passive: false });

  function zoom(factor, around) {
    const wide = state.viewTo - state.viewFrom;
    const next = Math.min(data.ms, Math.max(2000, wide * factor));
    const share = wide ? (around - state.viewFrom) / wide : 0.5;
    let from = around - share * next;
    from = Math.max(0, Math.min(data.ms - next, from));
    change({ viewFrom: from, viewTo: from + next });
  }
  const middle = () => (state.to > state.from ? (state.from + state.to) / 2 : (state.viewFrom + state.viewTo) / 2);
  document.getElementById("in").addEventListener("click", () => zoom(0.5, middle()));
  document.getElementById("out").addEventListener("click", () => zoom(2, middle()));
  document.getElementById("all").addEventListener("click", () => change({ viewFrom: 0, viewTo: data.ms }));

  const buttons = document.getElementById("metrics");
  for (const [metric, { name }] of Object.entries(METRICS)) {
    const button = element("button", { "data-metric": metric, onclick: () => change({ metric }) }, name);
    if (!isMeasured(data, metric)) button.title = "was not measured";
    buttons.append(button, " ");
  }
  const whose = document.getElementById("whose");
  whose.append(element("option", { value: -1 }, "all processes"));
  data.processes.forEach((process, i) => whose.append(element("option", { value: i }, process.label)));
  whose.addEventListener("change", () => change({ whose: Number(whose.value) }));

  onChange(() => {
    for (const button of buttons.querySelectorAll("button"))
      button.setAttribute("aria-pressed", button.dataset.metric === state.metric);
    whose.value = String(state.whose);
    draw();
  });
  return { zoom, middle };
}
