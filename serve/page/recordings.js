// The recordings of the page and their transcription, one after another.
//
// A recording: {name, url (to play), file (to send; none if it was spoken), state, error, segments,
// partial (text that may still change), duration, model, language}. States: waiting, sending,
// decoding, listening, done, failed, cancelled.
//
// Events, each with the recording as its detail: "added", "removed", "selected", "state" (state,
// duration), "text" (segments, partial).

import { events, request } from "./api.js";
import { withWords } from "./segments.js";

const ACTIVE = ["waiting", "sending", "decoding", "listening"];
export const isActive = (recording) => ACTIVE.includes(recording.state);

export class Recordings extends EventTarget {
  all = [];
  selected = null;

  // `settings()` gives {model, language} for the next transcription.
  constructor(settings) {
    super();
    this.settings = settings;
  }

  tell(type, recording) {
    this.dispatchEvent(new CustomEvent(type, { detail: recording }));
  }

  add(recording) {
    const made = { segments: [], partial: "", error: null, duration: NaN, ...recording };
    this.all.push(made);
    this.tell("added", made);
    if (!this.selected || !isActive(this.selected) || made.state === "listening") this.select(made);
    return made;
  }

  addFiles(files) {
    for (const file of files) {
      const recording =
        this.add({ name: file.name, file, url: URL.createObjectURL(file), state: "waiting" });
      this.measure(recording);
    }
    this.next();
  }

  // The duration, if the browser can play the file.
  measure(recording) {
    const audio = new Audio();
    audio.preload = "metadata";
    audio.onloadedmetadata = () => {
      if (Number.isFinite(audio.duration)) this.update(recording, { duration: audio.duration });
    };
    audio.src = recording.url;
  }

  update(recording, changes) {
    Object.assign(recording, changes);
    this.tell("state" in changes || "duration" in changes ? "state" : "text", recording);
  }

  select(recording) {
    this.selected = recording;
    this.tell("selected", recording);
  }

  remove(recording) {
    this.cancel(recording);
    const at = this.all.indexOf(recording);
    this.all.splice(at, 1);
    if (recording.url) URL.revokeObjectURL(recording.url);
    this.tell("removed", recording);
    if (recording === this.selected) this.select(this.all[Math.min(at, this.all.length - 1)] ?? null);
  }

  cancel(recording) {
    if (!isActive(recording)) return;
    if (recording.abort) recording.abort.abort();
    else this.update(recording, { state: "cancelled" });
  }

  retry(recording) {
    this.update(recording, { segments: [], partial: "" });
    this.update(recording, { state: "waiting", error: null });
    this.next();
  }

  // Transcribes the first waiting recording, unless one is at work.
  async next() {
    if (this.all.some((each) => each.state === "sending" || each.state === "decoding")) return;
    const recording = this.all.find((each) => each.state === "waiting");
    if (!recording) return;
    recording.abort = new AbortController();
    try {
      await this.transcribe(recording);
      this.update(recording, { state: "done" });
    } catch (error) {
      this.update(recording, { partial: "" });
      this.update(recording, error.name === "AbortError"
        ? { state: "cancelled" } : { state: "failed", error: error.message });
    }
    recording.abort = null;
    this.next();
  }

  async transcribe(recording) {
    const { model, language } = this.settings();
    const form = new FormData();
    for (const [name, value] of [
      ["model", model], ["stream", "true"], ["response_format", "verbose_json"],
      ["timestamp_granularities[]", "segment"], ["timestamp_granularities[]", "word"],
    ]) form.append(name, value);
    if (language) form.append("language", language);
    form.append("file", recording.file, recording.name);
    this.update(recording, { state: "sending", model, language });
    const response = await request("v1/audio/transcriptions",
                                   { form, signal: recording.abort.signal });
    this.update(recording, { state: "decoding" });
    for await (const event of events(response)) {
      if (event.type === "transcript.text.delta") {
        this.update(recording, { partial: recording.partial + event.delta });
      } else if (event.type === "transcript.text.segment") {
        recording.segments.push(withWords(event));
        this.update(recording, { partial: "" });
      } else if (event.type === "transcript.text.done") {
        if (event.language) recording.language = event.language;
        if (!Number.isFinite(recording.duration) && event.duration) {
          recording.duration = event.duration;
        }
      }
    }
  }
}
