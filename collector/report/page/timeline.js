// SPDX-License-Identifier: MIT
// The chosen processes over the time that is selected: CPU above, waiting on top of it, GPU below.

import { drawAxis } from "./axis.js";
import { color, hatch, prepare } from "./canvas.js";
import { isMeasured, series } from "./data.js";
import { change, onChange, state } from "./state.js";
import { element, length } from "./text.js";

const CPU_HEIGHT = 34, GPU_HEIGHT = 10;

export function timeline(data, zone) {
  const section = document.getElementById("timeline");
  const hasGpu = isMeasured(data, "gpu");

  // Bars of the worst millisecond that falls on each pixel.
  function worstAt(values, from, to, width) {
    const worst = new Float32Array(width).fill(-1);
    for (let ms = Math.max(0, Math.floor(from)); ms < Math.min(data.ms, to); ms++) {
      if (!data.machine.recorded[ms]) continue;
      const first = Math.max(0, Math.floor(((ms - from) / (to - from)) * width));
      const last = Math.min(width - 1, Math.max(first, Math.ceil(((ms + 1 - from) / (to - from)) * width) - 1));
      for (let x = first; x <= last; x++) if (values[ms] > worst[x]) worst[x] = values[ms];
    }
    return worst;
  }

  function drawLane(canvas, place, from, to) {
    const { context, width } = prepare(canvas, CPU_HEIGHT + (hasGpu ? GPU_HEIGHT + 3 : 0));
    const pixels = Math.floor(width);
    const cpu = worstAt(series(data, "cpu", place), from, to, pixels);
    const wait = data.machine.wait ? worstAt(series(data, "wait", place), from, to, pixels) : null;
    const gpuValues = hasGpu ? series(data, "gpu", place) : null;
    const gpu = gpuValues ? worstAt(gpuValues, from, to, pixels) : null;
    let most = 1;
    for (let x = 0; x < pixels; x++) most = Math.max(most, cpu[x] + (wait ? wait[x] : 0));
    const unknown = hatch(context);
    for (let x = 0; x < pixels; x++) {
      if (cpu[x] < 0) {
        context.fillStyle = unknown;
        context.fillRect(x, 0, 1, CPU_HEIGHT);
        continue;
      }
      const high = (cpu[x] / most) * CPU_HEIGHT;
      context.fillStyle = color("mark");
      context.fillRect(x, CPU_HEIGHT - high, 1, high);
      if (wait && wait[x] > 0) {
        const waited = (wait[x] / most) * CPU_HEIGHT;
        context.fillStyle = color("chosen");
        context.fillRect(x, CPU_HEIGHT - high - waited, 1, waited);
      }
    }
    if (hasGpu && gpu) { // else it makes no calls of CUDA that are seen
      for (let x = 0; x < pixels; x++) {
        context.fillStyle = gpu[x] < 0 ? unknown : gpu[x] > 0 ? color("ink") : color("panel");
        context.fillRect(x, CPU_HEIGHT + 3, 1, GPU_HEIGHT);
      }
    }
    context.fillStyle = color("line");
    context.fillRect(0, CPU_HEIGHT, width, 1);
  }

  function draw() {
    // What is selected, with some of what is around it.
    const wide = Math.max(200, (state.to - state.from) * 2);
    const middle = (state.from + state.to) / 2;
    const from = Math.max(0, middle - wide / 2), to = Math.min(data.ms, from + wide);
    const title = element("h2", {}, `PROCESSES OVER ${length(to - from)}  `);
    title.append(swatch("mark", "on a CPU"), swatch("chosen", "waiting"));
    if (hasGpu) title.append(swatch("ink", "work on a GPU"));
    section.replaceChildren(title);
    for (const place of state.chosen) {
      const process = data.processes[place];
      const canvas = element("canvas", { "aria-label": `${process.label} over time`, role: "img" });
      const remove = element("button", {
        class: "link", title: "take it away", "aria-label": `take ${process.label} away`,
        onclick: () => change({ chosen: state.chosen.filter((one) => one !== place) }),
      }, "×");
      section.append(element("div", { class: "lane" },
        element("span", { class: "name", title: process.in || "" }, remove, ` ${process.label}`), canvas));
      drawLane(canvas, place, from, to);
    }
    if (state.chosen.length === 0) section.append("Choose processes below.");
    const axis = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    axis.setAttribute("class", "axis");
    section.append(element("div", { class: "lane" }, element("span"), axis));
    drawAxis(axis, data.from_ms + from, data.from_ms + to, 0, axis.clientWidth || axis.getBoundingClientRect().width, zone);
  }

  function swatch(name, text) {
    const box = element("span", { style: `display:inline-block;width:10px;height:10px;margin:0 4px 0 10px;background:var(--${name})` });
    return element("span", {}, box, text);
  }

  onChange(draw);
}
