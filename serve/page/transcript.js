// The transcript of the selected recording: words that play, the word being played, editing,
// exports, and the player.

import { formats } from "./exports.js";
import { announce, byId, clock, element, showProblem } from "./page.js";
import { isActive } from "./recordings.js";
import { editedSegment, textOf, wordAt } from "./segments.js";

const audio = byId("audio"), list = byId("segments"), section = byId("transcript");

export class TranscriptView {
  #recordings;
  #recording = null;
  #items = [];    // of the segments
  #spans = [];    // of the words, in order
  #starts = [];   // seconds, of the words
  #marked = null; // the span of the word being played
  #partial = element("li", { class: "partial", hidden: true });

  constructor(recordings) {
    this.#recordings = recordings;
    recordings.addEventListener("selected", ({ detail }) => this.#select(detail));
    recordings.addEventListener("text", ({ detail }) => detail === this.#recording && this.#grow());
    recordings.addEventListener("state", ({ detail }) => detail === this.#recording && this.#frame());
    list.addEventListener("click", ({ target }) => this.#isWord(target) && this.#playWord(target));
    list.addEventListener("dblclick", ({ target }) => this.#isWord(target) && this.#edit(this.#indexOf(target)));
    list.addEventListener("keydown", (event) => this.#key(event));
    for (const event of ["timeupdate", "seeked"]) audio.addEventListener(event, () => this.#mark());
    audio.addEventListener("play", () => this.#follow());
    audio.addEventListener("error", () => {
      if (audio.error?.code === MediaError.MEDIA_ERR_SRC_NOT_SUPPORTED && audio.hasAttribute("src")) {
        showProblem("This browser cannot play the recording; its transcript is not affected.");
      }
    });
    byId("speed").onchange = () => { audio.playbackRate = Number(byId("speed").value); };
    byId("export-format").append(...Object.keys(formats).map((name) => element("option", {}, name)));
    byId("save").onclick = () => this.#save();
    byId("copy").onclick = () => this.#copy();
    this.#select(null);
  }

  playFrom(seconds) {
    if (!audio.hasAttribute("src")) return;
    audio.currentTime = seconds;
    audio.play().catch(() => {});
  }

  togglePlay() {
    if (byId("player").hidden) return;
    if (audio.paused) audio.play().catch(() => {});
    else audio.pause();
  }

  #select(recording) {
    if (recording === this.#recording && recording) return;
    this.#recording = recording;
    audio.pause();
    audio.removeAttribute("src");
    showProblem(null);
    byId("transcript-title").textContent = recording?.name ?? "Transcript";
    this.#rebuild();
    this.#frame();
  }

  // What depends on the state of the recording.
  #frame() {
    const recording = this.#recording;
    const has_text = recording?.segments.length > 0;
    byId("export").hidden = !has_text;
    const empty = byId("transcript-empty");
    empty.hidden = has_text || Boolean(recording?.partial);
    if (recording) {
      empty.textContent = isActive(recording)
        ? (recording.state === "listening" ? "Listening …" : "The text appears here while it is decoded.")
        : recording.state === "failed" ? recording.error
        : recording.state === "cancelled" ? "Cancelled." : "No speech was found in this recording.";
    }
    section.setAttribute("aria-busy", Boolean(recording && isActive(recording)));
    byId("player").hidden = !recording?.url;
    if (recording?.url && !audio.hasAttribute("src")) {
      audio.src = recording.url;
      audio.playbackRate = audio.defaultPlaybackRate = Number(byId("speed").value);
    }
  }

  #rebuild() {
    this.#items = [];
    this.#marked = null;
    list.replaceChildren(this.#partial);
    this.#grow();
  }

  // Adds the segments that are new, and the partial text. The last segment may have grown.
  #grow() {
    const segments = this.#recording?.segments ?? [];
    if (segments.length < this.#items.length) return this.#rebuild();
    const is_at_end = section.getBoundingClientRect().bottom <= innerHeight + 80;
    const from = Math.max(0, this.#items.length - 1);
    for (let index = from; index < segments.length; ++index) {
      const old = this.#items[index];
      if (old?.segment === segments[index] && old.n_words === segments[index].words.length) continue;
      const item = this.#item(segments[index]);
      if (old) old.replaceWith(item);
      else list.insertBefore(item, this.#partial);
      this.#items[index] = item;
    }
    this.#partial.textContent = this.#recording?.partial.trim() ?? "";
    this.#partial.hidden = !this.#partial.textContent;
    this.#index();
    this.#frame();
    if (is_at_end && this.#recording && isActive(this.#recording)) {
      section.scrollIntoView({ block: "end" });
    }
  }

  #item(segment) {
    const time = clock(segment.start);
    const text = element("p", { dir: "auto" });
    for (const { word } of segment.words) {
      if (/^\s/.test(word)) text.append(" ");
      text.append(element("span", { class: "word", tabindex: -1 }, word.trim()));
    }
    const item = element("li", {},
      element("button", { type: "button", class: "time", "aria-label": `Play from ${time}`,
        click: () => this.playFrom(segment.start) }, time),
      text,
      element("button", { type: "button", class: "plain edit", "aria-label": `Edit the segment at ${time}`,
        click: () => this.#edit(this.#items.indexOf(item)) }, "Edit"));
    item.segment = segment;
    item.n_words = segment.words.length;
    return item;
  }

  // One word can be reached by Tab, the others by arrow keys.
  #index() {
    this.#spans = [...list.querySelectorAll(".word")];
    this.#starts = this.#recording?.segments.flatMap(({ words }) => words.map(({ start }) => start)) ?? [];
    if (!this.#spans.some((span) => span.tabIndex === 0) && this.#spans[0]) this.#spans[0].tabIndex = 0;
  }

  #isWord(target) {
    return target.classList.contains("word");
  }

  // Of the segment of a word.
  #indexOf(span) {
    return this.#items.indexOf(span.closest("li"));
  }

  #focus(span) {
    for (const other of list.querySelectorAll(".word[tabindex='0']")) other.tabIndex = -1;
    span.tabIndex = 0;
    span.focus();
  }

  #playWord(span) {
    this.#focus(span);
    this.playFrom(this.#starts[this.#spans.indexOf(span)]);
  }

  #key(event) {
    if (!this.#isWord(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.#spans.indexOf(event.target);
    const segment = this.#indexOf(event.target);
    const firstOf = (index) => this.#items[index]?.querySelector(".word");
    const target = {
      ArrowRight: () => this.#spans[at + 1], ArrowLeft: () => this.#spans[at - 1],
      ArrowDown: () => firstOf(segment + 1), ArrowUp: () => firstOf(segment - 1),
      Home: () => this.#spans[0], End: () => this.#spans.at(-1),
    }[event.key];
    if (target) {
      const span = target();
      if (span) this.#focus(span);
    } else if (event.key === "Enter") this.#playWord(event.target);
    else if (event.key === "F2") this.#edit(segment);
    else return;
    event.preventDefault();
  }

  // ---- The word being played

  #mark() {
    const at = wordAt(this.#starts, audio.currentTime);
    const span = audio.currentTime > 0 || !audio.paused ? this.#spans[at] ?? null : null;
    if (span === this.#marked) return;
    this.#marked?.classList.remove("playing");
    const is_new_segment = span?.closest("li") !== this.#marked?.closest("li");
    this.#marked = span;
    span?.classList.add("playing");
    // Do not move the page under someone who edits or reads elsewhere.
    if (span && is_new_segment && !audio.paused && !list.querySelector("textarea")) {
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      span.closest("li").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
    }
  }

  // timeupdate comes four times a second, words faster.
  #follow() {
    this.#mark();
    if (!audio.paused) requestAnimationFrame(() => this.#follow());
  }

  // ---- Editing

  #edit(index) {
    const item = this.#items[index], recording = this.#recording;
    if (!item || item.querySelector("textarea") || recording.state === "listening") return;
    const text = item.querySelector("p");
    const field = element("textarea", { rows: 2, dir: "auto",
      "aria-label": `Text of the segment at ${clock(item.segment.start)}. Enter keeps, Escape restores.` });
    field.value = item.segment.text.trim();
    field.rows = Math.max(1, Math.ceil(field.value.length / 60));
    text.hidden = true;
    text.after(field);
    const end = (is_kept, is_focused) => {
      field.onblur = null;
      if (is_kept && field.value.trim() !== item.segment.text.trim()) {
        recording.segments[index] = editedSegment(item.segment, field.value);
        if (recording === this.#recording) {
          const made = this.#item(recording.segments[index]);
          item.replaceWith(made);
          this.#items[index] = made;
          this.#marked = null;
          this.#index();
          this.#mark();
        }
        announce("The segment was changed");
      } else {
        text.hidden = false;
        field.remove();
      }
      if (is_focused) this.#items[index]?.querySelector(".edit").focus();
    };
    field.onblur = () => end(true, false);
    field.onkeydown = (event) => {
      if (event.key === "Escape") end(false, true);
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) end(true, true);
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    field.focus();
  }

  // ---- Exports

  #save() {
    const format = byId("export-format").value, recording = this.#recording;
    const text = formats[format](recording.segments, recording);
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    const name = recording.name.replace(/\.[^.]*$/, "") + `.${format}`;
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    announce(`Saved as ${name}`);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(textOf(this.#recording.segments));
      announce("Copied");
      byId("copy").textContent = "Copied";
      setTimeout(() => { byId("copy").textContent = "Copy text"; }, 2000);
    } catch {
      showProblem("The browser does not allow this page to copy.");
    }
  }
}
