// What every part of the page uses: elements, announcements, problems.

export const byId = (id) => document.getElementById(id);

// An element with attributes (a function is a listener) and children.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Tells a screen reader, once a step, what happened.
export function announce(text) {
  byId("announcer").textContent = text;
}

// Shows an error above everything, or removes it.
export function showProblem(text) {
  byId("problem").textContent = text ?? "";
  byId("problem").hidden = !text;
}

// 75.3 -> "1:15"
export function clock(seconds) {
  const whole = Math.floor(Math.max(0, seconds || 0));
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return (hours ? `${hours}:${two(minutes)}` : minutes) + `:${two(whole % 60)}`;
}
