// SPDX-License-Identifier: MIT
// What is chosen, and who is told when it is another.

const listeners = [];

export const state = {
  metric: "wait",
  whose: -1, // place of a process; -1: the machine
  from: 0, // selected, in ms from the page's beginning
  to: 0,
  viewFrom: 0, // what the heat map shows, in ms
  viewTo: 0,
  chosen: [], // places of the processes in the timeline
  by: "process", // or "place": what the matrix speaks of
};

export function onChange(listener) {
  listeners.push(listener);
}

export function change(values) {
  Object.assign(state, values);
  for (const listener of listeners) listener(state);
}
