// SPDX-License-Identifier: MIT
// What the page was given: an object of JSON, whose numbers are packed (collector/report/packer.h).

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Seven bits a byte, the lowest first.
export function unpack(bytes, [offset, length]) {
  const numbers = new Uint32Array(length);
  let nr = 0;
  for (let at = offset, end = offset + length; at < end; nr++) {
    let number = 0, factor = 1, byte;
    do {
      byte = bytes[at++];
      number += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    numbers[nr] = number;
  }
  return numbers.subarray(0, nr);
}

function sums(numbers) {
  for (let i = 1; i < numbers.length; i++) numbers[i] += numbers[i - 1];
  return numbers;
}

// Every [offset, length] becomes numbers; "at" is told by distances.
function unpackAll(object, names, bytes) {
  for (const name of names) {
    if (!object || !object[name]) continue;
    object[name] = unpack(bytes, object[name]);
    if (name === "at") sums(object[name]);
  }
}

export async function load() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bytes = await inflate(bytesOf(data.packed));
  delete data.packed;
  unpackAll(data.machine, ["recorded", "cpu", "lost", "wait", "gpu", "nowork", "traffic"], bytes);
  unpackAll(data.overview, ["at", "cpu_ms", "wait_ms", "lost_ms"], bytes);
  for (const kind of ["all", "near"]) unpackAll(data.waits[kind], ["at", "who", "cause", "amount"], bytes);
  for (const process of data.processes) {
    for (const kind of ["fine", "near", "coarse"])
      unpackAll(process[kind], ["at", "cpu", "wait", "gpu", "cpu_min", "cpu_max", "wait_min", "wait_max"], bytes);
    process.label = `${process.name} (${process.pid})`;
  }
  data.stepMs = data.step_us / 1000;
  data.waitStepMs = data.wait_step_us / 1000;
  return data;
}

// The place of the first that is not below `value`.
export function lowerBound(sorted, value) {
  let from = 0, to = sorted.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (sorted[middle] < value) from = middle + 1;
    else to = middle;
  }
  return from;
}

export const METRICS = {
  wait: { name: "Waiting", unit: "ms of waiting in a millisecond", of: "wait" },
  cpu: { name: "CPU", unit: "CPUs that were busy", of: "cpu" },
  gpu: { name: "GPU", unit: "processes with work on a GPU", of: "gpu" },
  nowork: { name: "GPU no work", unit: "processes that launch, and whose GPU has no work of them", of: "nowork" },
  traffic: { name: "Bandwidth", unit: "GB/s of memory traffic", of: "traffic" },
};

// [ms] -> value of a metric, in its unit, of the machine (whose < 0) or a process; null: not measured.
export function series(data, metric, whose) {
  const name = METRICS[metric].of;
  const step = metric === "traffic" ? (data.step_bytes * 1000) / 1e9 : data.stepMs;
  const values = new Float32Array(data.ms);
  if (whose < 0) {
    const numbers = data.machine[name];
    if (!numbers) return null;
    for (let i = 0; i < values.length; i++) values[i] = numbers[i] * step;
    return values;
  }
  const process = data.processes[whose];
  if (process.coarse && (name === "cpu" || name === "wait")) {
    // What is not known to the millisecond is shown by its worst one.
    const most = process.coarse[`${name}_max`];
    process.coarse.at.forEach((bin, i) =>
      values.fill(most[i] * step, bin * data.coarse_ms, Math.min((bin + 1) * data.coarse_ms, values.length)));
  }
  for (const rows of [process.fine, process.near]) {
    if (!rows) continue;
    if (!rows[name]) return null;
    rows.at.forEach((ms, i) => { values[ms] = rows[name][i] * step; });
  }
  return process.fine || name === "cpu" || name === "wait" ? values : null;
}

export function isMeasured(data, metric) {
  return Boolean(data.machine[METRICS[metric].of]);
}
