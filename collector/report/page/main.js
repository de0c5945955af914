// SPDX-License-Identifier: MIT
import "./style.css";
import { answer, quality } from "./answer.js";
import { isDark } from "./canvas.js";
import { METRICS, isMeasured, load } from "./data.js";
import { heatMap } from "./heat_map.js";
import { matrix } from "./matrix.js";
import { overview } from "./overview.js";
import { processes } from "./processes.js";
import { change, state } from "./state.js";
import { element, knownZone } from "./text.js";
import { timeline } from "./timeline.js";

const KEYS = [
  ["n, p", "next or previous worst moment"],
  ["left, right", "move what is selected (with shift: one millisecond)"],
  ["up, down", "make it shorter or longer"],
  ["+, -, 0", "zoom in, out, all"],
  ["1 to 5", "waiting, CPU, GPU, GPU without work, bandwidth"],
  ["a", "all processes in the heat map"],
  ["t", "dark or light"],
  ["?", "these keys"],
];

// Who is in that moment, by their places.
function castOf(data, moment) {
  const places = [];
  for (const party of [moment.who, ...moment.neighbors]) {
    if (!party) continue;
    const place = data.processes.findIndex((process) => (party.pid ? process.pid === party.pid : process.name === party.name || process.in === party.name));
    if (place >= 0 && !places.includes(place)) places.push(place);
  }
  return places.slice(0, 4);
}

// Where nothing stood out: the second in which most was waited, or that was busiest.
function worstSecond(data) {
  const its = data.machine.wait || data.machine.cpu;
  const sums = [];
  for (let ms = 0; ms < data.ms; ms++) sums[Math.floor(ms / 1000)] = (sums[Math.floor(ms / 1000)] || 0) + its[ms];
  const from = 1000 * sums.indexOf(Math.max(...sums));
  return { from, to: Math.min(data.ms, from + 1000) };
}

function main(data) {
  const zone = knownZone(data.zone);
  let moment = -1;
  const jump = (i, at) => {
    if (i < 0) {
      const from = Math.max(0, Math.min(data.ms - 20, Math.floor(at / 20) * 20));
      if (at >= 0 && at < data.ms) change({ from, to: Math.min(data.ms, from + 100) });
      return;
    }
    moment = i;
    const its = data.moments[i];
    const from = Math.max(0, its.from_ms - data.from_ms), to = Math.min(data.ms, its.to_ms - data.from_ms);
    parts.answer.show(i);
    if (to > from) change({ from, to, chosen: castOf(data, its) });
  };
  const parts = {};
  parts.answer = answer(data, zone, jump);
  quality(data, zone);
  overview(data, zone, jump);
  parts.map = heatMap(data, zone);
  matrix(data, zone);
  timeline(data, zone);
  processes(data);

  const redraw = () => change({});
  const theme = () => {
    const classes = document.documentElement.classList;
    const wasDark = isDark();
    classes.toggle("dark", !wasDark);
    classes.toggle("light", wasDark);
    redraw();
  };
  const keys = document.getElementById("keys");
  keys.append(element("table", {}, element("tbody", {}, ...KEYS.map(([key, text]) =>
    element("tr", {}, element("td", {}, key), element("td", { style: "text-align:left" }, text))))),
    element("button", { onclick: () => keys.close() }, "Close"));
  document.getElementById("theme").addEventListener("click", theme);
  document.getElementById("help").addEventListener("click", () => keys.showModal());
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const move = (by) => {
    const wide = state.to - state.from;
    const from = Math.max(0, Math.min(data.ms - wide, state.from + by));
    change({ from, to: from + wide });
  };
  const metrics = Object.keys(METRICS);
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT" || keys.open) return;
    const step = event.shiftKey ? 1 : Math.max(1, state.to - state.from);
    const actions = {
      ArrowLeft: () => move(-step),
      ArrowRight: () => move(step),
      ArrowUp: () => change({ to: Math.max(state.from + 1, state.from + (state.to - state.from) / 2) }),
      ArrowDown: () => change({ to: Math.min(data.ms, state.from + (state.to - state.from) * 2) }),
      "+": () => parts.map.zoom(0.5, parts.map.middle()),
      "=": () => parts.map.zoom(0.5, parts.map.middle()),
      "-": () => parts.map.zoom(2, parts.map.middle()),
      0: () => change({ viewFrom: 0, viewTo: data.ms }),
      n: () => data.moments.length && jump((moment + 1) % data.moments.length),
      p: () => data.moments.length && jump((moment - 1 + data.moments.length) % data.moments.length),
      a: () => change({ whose: -1 }),
      t: theme,
      "?": () => keys.showModal(),
    };
    const action = actions[event.key] || (metrics[Number(event.key) - 1] && (() => change({ metric: metrics[Number(event.key) - 1] })));
    if (!action) return;
    event.preventDefault();
    action();
  });

  state.viewTo = data.ms;
  if (!isMeasured(data, "wait")) state.metric = "cpu";
  const first = data.moments.findIndex((its) => its.to_ms > data.from_ms && its.from_ms < data.from_ms + data.ms);
  if (first >= 0) jump(first);
  else change({ ...worstSecond(data), chosen: data.processes.slice(0, 3).map((_, i) => i) });
  // A few of these is what a link may say: #metric=cpu&from=1200&to=1300&pid=4711
  const wanted = new URLSearchParams(location.hash.slice(1));
  const values = {};
  if (metrics.includes(wanted.get("metric"))) values.metric = wanted.get("metric");
  const [from, to] = [Number(wanted.get("from")), Number(wanted.get("to"))];
  if (to > from && from >= 0 && to <= data.ms) Object.assign(values, { from, to });
  const place = data.processes.findIndex((process) => String(process.pid) === wanted.get("pid"));
  if (place >= 0) Object.assign(values, { whose: place, chosen: [place] });
  change(values);
  document.body.dataset.ready = "yes";
}

load().then(main).catch((error) => {
  document.getElementById("answer").textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later. slotscope explain tells the same.`;
  document.body.dataset.ready = "failed";
});
