// SPDX-License-Identifier: MIT
// The answer: the worst moment in five lines, the next worst as links; and how good the data are.

import { onChange, state } from "./state.js";
import { clockMs, date, element, length, shortPlace } from "./text.js";

const LINES = 4, NEXT = 6;

export function answer(data, zone, jump) {
  const section = document.getElementById("answer");
  const isHere = (moment) => moment.to_ms > data.from_ms && moment.from_ms < data.from_ms + data.ms;
  let shown = data.moments.length ? 0 : -1;

  function draw() {
    if (shown < 0) {
      section.replaceChildren(
        element("h2", {}, "ANSWER"),
        element("div", { class: "first" }, `${data.damaged ? "In what could be read" : "Quiet:"} ${data.is_selection ? "none of those that are selected" : "no process"} was held up for longer than usual. Nobody is accused.`));
      if (data.usual) section.append(element("div", { class: "part" }, data.usual));
      return;
    }
    const moment = data.moments[shown];
    const says = data.quiet ? "No moment was worse than usual. Held up most in all of that time: " : `At ${clockMs(moment.from_ms, zone)} `;
    section.replaceChildren(
      element("h2", {}, "ANSWER"),
      element("div", { class: "first" }, `${says}${moment.sentence}.`));
    for (const line of moment.lines.slice(0, LINES)) section.append(element("div", { class: "part" }, line));
    const next = element("div", {}, element("b", {}, `Confidence: ${moment.confidence}. `));
    const others = data.moments.map((_, i) => i).filter((i) => i !== shown).slice(0, NEXT);
    if (others.length) next.append("Next worst: ");
    for (const i of others)
      next.append(element("button", { class: "link", title: data.moments[i].sentence, onclick: () => jump(i) },
        `${clockMs(data.moments[i].from_ms, zone)} ${data.moments[i].who ? shortPlace(data.moments[i].who.name) : "lost"} (${length(data.moments[i].to_ms - data.moments[i].from_ms)})`), "  ");
    section.append(next, element("div", {}, "Its rows: ", element("code", {}, moment.command)));
    if (!isHere(moment))
      section.append(element("div", { class: "bad" }, `This moment is not among the ${length(data.ms)} of this page: slotscope report --at @${(moment.from_ms / 1000).toFixed(3)}`));
  }

  onChange(() => {
    const now = data.moments.findIndex((moment) =>
      Math.round(moment.from_ms - data.from_ms) === Math.round(state.from) && Math.round(moment.to_ms - data.from_ms) === Math.round(state.to));
    if (now >= 0) shown = now;
    draw();
  });
  return { show: (i) => { shown = i; draw(); } };
}

export function quality(data, zone) {
  const { quality: its } = data;
  const section = document.getElementById("quality");
  const missing = its.gaps.reduce((all, gap) => all + gap.ms, 0);
  const parts = [];
  const isGood = its.lost_share < 0.01 && missing === 0 && !data.damaged;
  const lost = `${(100 * its.lost_share).toPrecision(2)}% of CPU time`;
  parts.push(isGood ? `complete, but for ${lost}` : `not complete: lost ${lost}`);
  parts.push(its.gaps.length ? `${its.gaps.length} gap${its.gaps.length > 1 ? "s" : ""} (${length(missing)})` : "0 gaps");
  if (data.damaged) parts.push("some of it could not be read");
  parts.push(`not measured: ${its.not_measured.join(", ") || "nothing"}`);
  if (its.slot_ms > 1) parts.push(`some slots are ${its.slot_ms} ms long`);
  const fine = data.processes.filter((process) => process.fine).length;
  const coarse = data.processes.length - fine;
  const rest = data.nr_processes - data.processes.length;
  parts.push(`${fine} process${fine === 1 ? "" : "es"} to the millisecond` +
    (coarse ? `, ${coarse} in steps of ${data.coarse_ms} ms (least and most), finer near what happened` : "") +
    (rest > 0 ? `, ${rest} in the sums only` : ""));
  section.replaceChildren(element("b", { class: isGood ? "" : "bad" }, "DATA  "), parts.join("  |  "));
  document.getElementById("where").textContent = `${data.host || "a recording"}`;
  const local = zone === "UTC" ? "" : `  (${date(data.from_ms, zone)} ${zone})`;
  document.getElementById("when").textContent =
    `${date(data.from_ms, "UTC")} to ${date(data.from_ms + data.ms, "UTC").split(", ").pop()} UTC${local}  |  ${length(data.ms)} of ${length(data.recorded.to_ms - data.recorded.from_ms)} of ${data.recording}`;
}
