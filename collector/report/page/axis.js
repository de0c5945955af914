// SPDX-License-Identifier: MIT
// An axis of time, below whatever it is of.

import { axisBottom } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { clock, clockMs } from "./text.js";

// from, to: Unix ms at the left and right edge of the `left` to `left + width` pixels.
export function drawAxis(svg, from, to, left, width, zone) {
  const scale = scaleLinear().domain([from, to]).range([left, left + width]);
  const isFine = to - from < 5000;
  const nr = Math.max(2, Math.floor(width / 110));
  // Ticks at whole parts of a second or a minute.
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000,
    600000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000];
  const step = steps.find((one) => (to - from) / one <= nr) || steps[steps.length - 1];
  const ticks = [];
  // The last one needs room for half of its text; that of the first one begins at the edge.
  const half = isFine ? 36 : 24;
  const end = to - ((to - from) / width) * half;
  for (let at = Math.ceil(from / step) * step; at <= end; at += step) ticks.push(at);
  select(svg).selectAll("*").remove();
  select(svg).append("g").call(
    axisBottom(scale).tickValues(ticks).tickSize(4).tickFormat((at) => (isFine ? clockMs(at, zone) : clock(at, zone))))
    .selectAll("text").attr("text-anchor", (at) => (scale(at) < half ? "start" : "middle"));
}
