// SPDX-License-Identifier: MIT
// The whole recording, second by second, with what happened in it.

import { drawAxis } from "./axis.js";
import { color, hatch, prepare } from "./canvas.js";
import { onChange, state } from "./state.js";
import { clockMs, element, length } from "./text.js";
import { hideTip, showTip } from "./tip.js";

const HEIGHT = 34;

export function overview(data, zone, jump) {
  const section = document.getElementById("overview");
  const canvas = element("canvas", { role: "img", "aria-label": "CPU and waiting of the whole recording" });
  const axis = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  axis.setAttribute("class", "axis");
  const from = data.recorded.from_ms, to = Math.max(data.recorded.to_ms, from + 1000);
  const title = element("h2", {}, `ALL ${length(to - from)}: CPU, ${data.machine.wait ? "and on top of it waiting" : "waiting was not measured"}; below: `);
  section.append(title, canvas, axis);
  const seconds = data.overview;
  const marks = [
    ...data.moments.map((moment, i) => ({ at: moment.from_ms, sign: "▲", text: moment.sentence, moment: i })),
    ...seconds.marks.map((mark) => ({ at: mark.at_ms, sign: mark.kind === "verdict" ? "◆" : "!", text: `${mark.kind}: ${mark.text}` })),
  ];
  const signs = [["▲", "held up"], ["!", "trigger"], ["◆", "verdict"]];
  title.append(signs.filter(([sign]) => marks.some((mark) => mark.sign === sign)).map(([sign, text]) => `${sign} ${text}`).join("  ") || "nothing was marked");
  if (data.moments_found > data.moments.length)
    title.append(`  (the ${data.moments.length} worst of ${data.moments_found})`);

  function draw() {
    const { context, width } = prepare(canvas, HEIGHT + 14);
    const xOf = (ms) => ((ms - from) / (to - from)) * width;
    const unknown = hatch(context);
    context.fillStyle = unknown;
    context.fillRect(0, 0, width, HEIGHT);
    const pixels = Math.ceil(width);
    const cpu = new Float64Array(pixels).fill(-1), wait = new Float64Array(pixels);
    for (let i = 0; i < seconds.at.length; i++) {
      const at = (seconds.first_s + seconds.at[i]) * 1000;
      const first = Math.max(0, Math.floor(xOf(at))), last = Math.min(pixels - 1, Math.max(first, Math.ceil(xOf(at + 1000)) - 1));
      // The first and the last one are parts of a second.
      const whole = 1000 / Math.max(1, Math.min(at + 1000, to) - Math.max(at, from));
      for (let x = first; x <= last; x++) {
        cpu[x] = Math.max(cpu[x], seconds.cpu_ms[i] * whole);
        wait[x] = Math.max(wait[x], seconds.wait_ms[i] * whole);
      }
    }
    let most = 1000 * data.cpus;
    for (let x = 0; x < pixels; x++) most = Math.max(most, cpu[x] + wait[x]);
    for (let x = 0; x < pixels; x++) {
      if (cpu[x] < 0) continue;
      context.fillStyle = color("panel");
      context.fillRect(x, 0, 1, HEIGHT);
      const high = (cpu[x] / most) * HEIGHT, waited = (wait[x] / most) * HEIGHT;
      context.fillStyle = color("mark");
      context.fillRect(x, HEIGHT - high, 1, high);
      context.fillStyle = color("chosen");
      context.fillRect(x, HEIGHT - high - waited, 1, waited);
    }
    const left = xOf(data.from_ms), right = xOf(data.from_ms + data.ms);
    context.strokeStyle = color("ink");
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), HEIGHT - 1.5);
    if (state.to > state.from) {
      context.fillStyle = color("ink");
      context.fillRect(xOf(data.from_ms + state.from), 0, Math.max(1, xOf(data.from_ms + state.to) - xOf(data.from_ms + state.from)), 3);
    }
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("ink");
    for (const mark of marks) context.fillText(mark.sign, xOf(mark.at) - 4, HEIGHT + 12);
    drawAxis(axis, from, to, 0, width, zone);
  }

  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = from + ((event.clientX - box.left) / box.width) * (to - from);
    const reach = ((to - from) / box.width) * 8;
    return { at, mark: marks.filter((mark) => Math.abs(mark.at - at) < reach).sort((a, b) => Math.abs(a.at - at) - Math.abs(b.at - at))[0] };
  };
  canvas.addEventListener("pointermove", (event) => {
    const { at, mark } = nearest(event);
    showTip(event, mark ? `${clockMs(mark.at, zone)}  ${mark.text}` : clockMs(at, zone));
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const { at, mark } = nearest(event);
    if (mark && mark.moment !== undefined) jump(mark.moment);
    else jump(-1, (mark ? mark.at : at) - data.from_ms);
  });
  onChange(draw);
}
