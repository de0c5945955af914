// SPDX-License-Identifier: MIT
// A few lines beside the pointer.

const tip = document.getElementById("tip");

export function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
}

export function hideTip() {
  tip.hidden = true;
}
