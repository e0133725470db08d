// The list of recordings: state, progress, cancel, remove; and the ways to add one.

import { announce, byId, clock, element, showProblem } from "./page.js";
import { isActive } from "./recordings.js";

const STATES = {
  waiting: "Waiting", sending: "Sending …", decoding: "Transcribing", listening: "Listening",
  done: "Done", failed: "Failed", cancelled: "Cancelled",
};

function stateText(recording) {
  if (recording.state === "failed") return recording.error;
  if (recording.state === "done" && recording.segments.length === 0) return "No speech found";
  const duration = Number.isFinite(recording.duration) ? clock(recording.duration) : "";
  return recording.state === "done" && duration ? duration : STATES[recording.state];
}

class Row {
  constructor(recordings, recording) {
    const { name } = recording;
    this.recordings = recordings;
    this.recording = recording;
    this.state = element("span", { class: "state" });
    this.select = element("button", { type: "button", class: "select",
      click: () => recordings.select(recording) }, element("span", { class: "name" }, name), this.state);
    this.progress = element("progress", { max: 1, "aria-label": `Progress of ${name}` });
    this.cancel = element("button", { type: "button", class: "plain",
      "aria-label": `Cancel ${name}`, click: () => recordings.cancel(recording) }, "Cancel");
    this.retry = element("button", { type: "button", class: "plain",
      "aria-label": `Try ${name} again`, click: () => recordings.retry(recording) }, "Try again");
    this.remove = element("button", { type: "button", class: "plain icon",
      "aria-label": `Remove ${name}`, title: "Remove",
      click: () => { recordings.remove(recording); byId("choose").focus(); } }, "✕");
    this.item = element("li", {}, this.select, this.cancel, this.retry, this.remove, this.progress);
  }

  show() {
    const { recording } = this;
    this.item.dataset.state = recording.state;
    this.state.textContent = stateText(recording);
    this.select.setAttribute("aria-current", recording === this.recordings.selected);
    this.cancel.hidden = !isActive(recording) || recording.state === "listening";
    this.retry.hidden = isActive(recording) || recording.state === "done" || !recording.file;
    this.remove.hidden = isActive(recording);
    this.progress.hidden = !["sending", "decoding"].includes(recording.state);
    const done = recording.segments.at(-1)?.end / recording.duration;
    if (recording.state === "decoding" && done >= 0) this.progress.value = Math.min(1, done);
    else this.progress.removeAttribute("value");
  }
}

export function showRecordings(recordings) {
  const rows = new Map();
  const showAll = () => { for (const row of rows.values()) row.show(); };
  recordings.addEventListener("added", ({ detail }) => {
    rows.set(detail, new Row(recordings, detail));
    byId("recording-list").append(rows.get(detail).item);
    rows.get(detail).show();
  });
  recordings.addEventListener("removed", ({ detail }) => {
    rows.get(detail).item.remove();
    rows.delete(detail);
  });
  recordings.addEventListener("selected", showAll);
  recordings.addEventListener("text", ({ detail }) => rows.get(detail)?.show());
  const announced = new Map();
  recordings.addEventListener("state", ({ detail }) => {
    rows.get(detail)?.show();
    if (announced.get(detail) === detail.state) return;
    announced.set(detail, detail.state);
    const { name, state } = detail;
    if (state === "decoding") announce(`Transcribing ${name}`);
    else if (state === "done") announce(`${name} is transcribed`);
    else if (state === "failed") announce(`${name} failed: ${detail.error}`);
    else if (state === "cancelled") announce(`${name} was cancelled`);
  });

  const drop = byId("drop"), files = byId("files");
  byId("choose").onclick = () => files.click();
  files.onchange = () => {
    recordings.addFiles(files.files);
    files.value = "";  // so that the same file can be chosen again
  };
  // Files may be dropped anywhere.
  let depth = 0;  // dragenter and dragleave also come for children
  const isFiles = (event) => event.dataTransfer?.types.includes("Files") && !drop.hidden;
  const mark = (change) => drop.classList.toggle("over", (depth = Math.max(0, depth + change)) > 0);
  addEventListener("dragenter", (event) => isFiles(event) && mark(1));
  addEventListener("dragleave", (event) => isFiles(event) && mark(-1));
  addEventListener("dragover", (event) => isFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    mark(-depth);
    showProblem(null);
    recordings.addFiles(event.dataTransfer.files);
  });
}
