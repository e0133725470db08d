// Starts the page: asks the server for its models and shows the parts that they make possible.

import { request } from "./api.js";
import { startChat } from "./chat.js";
import { startLive } from "./live.js";
import { byId, element, showProblem } from "./page.js";
import { showRecordings } from "./recording_list.js";
import { Recordings } from "./recordings.js";
import { Search } from "./search.js";
import { TranscriptView } from "./transcript.js";

// Of Whisper (ISO 639-1, where there is a code).
const LANGUAGES =
  "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he hi " +
  "hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl nn " +
  "no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk ur uz vi " +
  "yi yo yue zh";

const settings = () => ({
  model: byId("speech-model").value,
  language: byId("language-label").hidden ? "" : byId("language").value,
});

const recordings = new Recordings(settings);
const transcript = new TranscriptView(recordings);
showRecordings(recordings);
startLive(recordings, settings);
const search = new Search(recordings, (recording, seconds) => {
  recordings.select(recording);
  transcript.playFrom(seconds);
});
startChat(recordings, search);

function showLanguages() {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const options = LANGUAGES.split(" ").map((code) => [code, names.of(code === "jw" ? "jv" : code)])
    .sort(([, a], [, b]) => a.localeCompare(b))
    .map(([code, name]) => element("option", { value: code }, name));
  byId("language").append(element("option", { value: "" }, "Detect"), ...options);
  // English-only models of Whisper have this name.
  const show = () => { byId("language-label").hidden = /\.en\b/.test(byId("speech-model").value); };
  byId("speech-model").addEventListener("change", show);
  show();
}

async function showModels() {
  const { data } = await (await request("v1/models")).json();
  const ids = (kind) => data.filter((model) => model.kind === kind).map(({ id }) => id);
  for (const [kind, menu] of [["speech", "speech-model"], ["language", "chat-model"]]) {
    byId(menu).append(...ids(kind).map((id) => element("option", {}, id)));
  }
  search.model = ids("text encoder")[0] ?? null;
  for (const part of document.querySelectorAll("[data-needs]")) {
    part.hidden = ids(part.dataset.needs).length === 0;
  }
  for (const note of document.querySelectorAll("[data-missing]")) {
    note.hidden = ids(note.dataset.missing).length > 0;
  }
}

// Space plays, except where it does something else.
addEventListener("keydown", (event) => {
  if (event.key !== " " || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, textarea, select, button, audio, a, dialog")) return;
  event.preventDefault();
  transcript.togglePlay();
});

try {
  await showModels();
} catch (error) {
  showProblem(error.message);
}
showLanguages();
document.documentElement.dataset.ready = "";
