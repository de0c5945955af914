// SPDX-License-Identifier: MIT
// Canvases at the screen's own resolution; colours that are told apart by their lightness alone.

import { scaleLinear } from "d3-scale";

// After cividis: from dark blue to yellow; in a light page from pale to dark. Nothing is the ground.
const STOPS = ["#ffea46", "#d3c164", "#a59c74", "#7c7b78", "#575d6d", "#233e6c", "#00224e"];

export function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (!document.documentElement.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// share: 0..1 -> colour.
export function ramp() {
  const stops = isDark() ? [...STOPS].reverse() : STOPS;
  const scale = scaleLinear().domain(stops.map((_, i) => i / (stops.length - 1))).range(stops).clamp(true);
  const table = Array.from({ length: 65 }, (_, i) => scale(i / 64));
  return (share) => table[Math.round(Math.min(1, Math.max(0, share)) * 64)];
}

// A context whose units are CSS pixels.
export function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// What was not measured, or not recorded.
export function hatch(context) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const inside = tile.getContext("2d");
  inside.strokeStyle = color("faint");
  inside.lineWidth = 1;
  inside.beginPath();
  inside.moveTo(0, 6);
  inside.lineTo(6, 0);
  inside.stroke();
  return context.createPattern(tile, "repeat");
}
