// SPDX-License-Identifier: MIT
// Who kept whom waiting in the selected time: a row for who waited, a column for who ran instead, or why.

import { lowerBound } from "./data.js";
import { change, onChange, state } from "./state.js";
import { clockMs, element, length, number, shortPlace } from "./text.js";

const ROWS = 12, COLUMNS = 8;
const HEADS = { "= others": "others, not known who", "= earlier": "told late" };
const TITLES = { "= earlier": "It waited for longer than a slot waits for what is told of it, so no row says who ran meanwhile." };
// The reasons behind them are to be seen as well.
const nrColumns = () => Math.max(2, Math.min(COLUMNS, Math.floor((window.innerWidth - 420) / 95)));

export function matrix(data, zone) {
  const section = document.getElementById("matrix");
  const waits = data.waits, causes = waits.causes;
  const places = data.processes.some((process) => process.in);
  if (places) state.by = "place";

  const nameOf = (i) => {
    if (i >= data.processes.length) return "other processes";
    const process = data.processes[i];
    return state.by === "place" && process.in ? process.in : process.name;
  };

  // In steps of 10 ms; of a large page only near what happened, and else in longer ones.
  function sum() {
    const isNear = waits.near && data.near.some(([begin, end]) => state.from >= begin && state.to <= end);
    const its = isNear ? waits.near : waits.all;
    const from = Math.floor((data.from_ms + state.from - waits.first_ms) / its.bin_ms);
    const to = (data.from_ms + state.to - waits.first_ms) / its.bin_ms;
    const rows = new Map(); // waiter -> column -> ms
    const totals = new Map(); // column -> ms
    for (let i = lowerBound(its.at, from); i < its.at.length && its.at[i] < to; i++) {
      const who = nameOf(its.who[i]);
      const cause = its.cause[i] < causes.length ? `= ${causes[its.cause[i]]}` : nameOf(its.cause[i] - causes.length);
      const ms = its.amount[i] * data.waitStepMs;
      if (!rows.has(who)) rows.set(who, { who, sum: 0, of: new Map(), place: its.who[i] });
      const row = rows.get(who);
      row.sum += ms;
      row.of.set(cause, (row.of.get(cause) || 0) + ms);
      totals.set(cause, (totals.get(cause) || 0) + ms);
    }
    return { rows: [...rows.values()].sort((a, b) => b.sum - a.sum), totals, binMs: its.bin_ms };
  }

  function draw() {
    const has = state.to > state.from;
    const when = has ? `${clockMs(data.from_ms + state.from, zone)}, ${length(state.to - state.from)}` : "";
    const title = element("h2", {}, `WHO KEPT WHOM WAITING (ms)  ${when}`);
    const bar = element("div", { class: "bar" }, title);
    if (places)
      for (const [by, text] of [["place", `by ${data.places}`], ["process", "by name"]])
        bar.append(element("button", { "aria-pressed": state.by === by, onclick: () => change({ by }) }, text));
    if (!data.machine.wait) {
      section.replaceChildren(bar, "Waiting was not measured.");
      return;
    }
    const { rows, totals, binMs } = sum();
    if (rows.length === 0) {
      section.replaceChildren(bar, has ? "Nobody waited then." : "Select a time.");
      return;
    }
    const neighbours = [...totals.keys()].filter((name) => !name.startsWith("= ")).sort((a, b) => totals.get(b) - totals.get(a));
    const shown = neighbours.slice(0, nrColumns());
    const reasons = causes.map((name) => `= ${name}`).filter((name) => totals.has(name));
    const head = element("tr", {}, element("th", {}, "waited"), element("th", {}, "in all"));
    for (const name of shown) head.append(element("th", { title: name }, shortPlace(name, 18)));
    if (neighbours.length > shown.length) head.append(element("th", {}, `${neighbours.length - shown.length} others`));
    for (const name of reasons) head.append(element("th", { title: TITLES[name] || "" }, HEADS[name] || name.slice(2)));
    const body = element("tbody");
    const cell = (ms) => element("td", {}, ms ? number(ms) : "");
    for (const row of rows.slice(0, ROWS)) {
      const name = row.place < data.processes.length
        ? element("button", { class: "link", title: row.who, onclick: () => choose(row.place) }, shortPlace(row.who)) : row.who;
      const line = element("tr", {}, element("td", {}, name), cell(row.sum));
      for (const column of shown) line.append(cell(row.of.get(column)));
      if (neighbours.length > shown.length)
        line.append(cell(neighbours.slice(shown.length).reduce((all, column) => all + (row.of.get(column) || 0), 0)));
      for (const column of reasons) line.append(cell(row.of.get(column)));
      body.append(line);
    }
    const table = element("table", {}, element("thead", {}, head), body);
    if (binMs > 10) title.append(`, in whole steps of ${length(binMs)}`);
    const rest = rows.length > ROWS ? `${rows.length - ROWS} more waited, ${number(rows.slice(ROWS).reduce((all, row) => all + row.sum, 0))} ms in all` : "";
    section.replaceChildren(bar, element("div", { class: "scroll" }, table), rest);
  }

  function choose(place) {
    if (!state.chosen.includes(place)) change({ chosen: [place, ...state.chosen].slice(0, 6), whose: place });
    else change({ whose: place });
  }

  onChange(draw);
}
