// SPDX-License-Identifier: MIT
// The processes that the page knows by name.

import { change, onChange, state } from "./state.js";
import { element, number, shortPlace } from "./text.js";

const SHOWN = 25;

export function processes(data) {
  const section = document.getElementById("processes");
  let all = false;

  function draw() {
    const head = element("tr", {}, ...["process", "in", "CPU ms", "waited ms", "known"].map((text) => element("th", {}, text)));
    const body = element("tbody");
    const shown = all ? data.processes.length : Math.min(SHOWN, data.processes.length);
    for (let i = 0; i < shown; i++) {
      const process = data.processes[i];
      const chosen = state.chosen.includes(i);
      body.append(element("tr", { class: chosen ? "chosen" : "" },
        element("td", {}, element("button", {
          class: "link", "aria-pressed": chosen,
          onclick: () => change({ chosen: chosen ? state.chosen.filter((one) => one !== i) : [...state.chosen, i] }),
        }, process.label)),
        element("td", { title: process.in }, shortPlace(process.in || "")), element("td", {}, number(process.cpu_ms)),
        element("td", {}, data.machine.wait ? number(process.wait_ms) : ""), element("td", {}, process.fine ? "to 1 ms" : `${data.coarse_ms} ms`)));
    }
    section.replaceChildren(element("h2", {}, "PROCESSES (choose those of the timeline)"),
      element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)));
    if (shown < data.processes.length)
      section.append(element("button", { class: "link", onclick: () => { all = true; draw(); } }, `${data.processes.length - shown} more`));
  }
  onChange(draw);
}
