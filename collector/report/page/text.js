// SPDX-License-Identifier: MIT
// Times and numbers as people read them.

const formats = new Map();

function partsOf(ms, zone, withDate) {
  const key = `${zone} ${withDate}`;
  if (!formats.has(key)) {
    const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: zone };
    if (withDate) Object.assign(options, { day: "numeric", month: "short", year: "numeric" });
    formats.set(key, new Intl.DateTimeFormat("en-GB", options));
  }
  return formats.get(key).format(new Date(ms));
}

// A browser may not know a zone, or the recording may not say one.
export function knownZone(name) {
  try {
    const { timeZone } = new Intl.DateTimeFormat("en-GB", { timeZone: name || "UTC" }).resolvedOptions();
    return /^(Etc\/)?(UTC|GMT|Universal|Zulu)$/.test(timeZone) ? "UTC" : timeZone;
  } catch {
    return "UTC";
  }
}

export const date = (ms, zone) => partsOf(Math.floor(ms), zone, true);
export const clock = (ms, zone) => partsOf(Math.floor(ms), zone, false);
export function clockMs(ms, zone) {
  const whole = Math.round(ms);
  return `${clock(whole, zone)}.${String(((whole % 1000) + 1000) % 1000).padStart(3, "0")}`;
}

export function number(value) {
  if (value === 0) return "0";
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}

// A length in ms.
export function length(ms) {
  return ms < 1000 ? `${number(ms)} ms` : ms < 120000 ? `${number(ms / 1000)} s` : `${number(ms / 60000)} min`;
}

// Of a pod, a unit or a cgroup: ids of containers have 12 digits, and a long path keeps its end.
export function shortPlace(name, most = 36) {
  const text = name.replace(/[0-9a-f]{64}/g, (id) => id.slice(0, 12));
  return text.length > most ? `\u2026${text.slice(1 - most)}` : text;
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
