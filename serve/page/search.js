// Search by meaning: vectors of passages from the server, compared here by their cosine.

import { request } from "./api.js";
import { announce, byId, clock, element } from "./page.js";

const PASSAGE_CHARACTERS = 240;  // segments are joined up to this: single ones say too little
const BATCH = 32;                // texts of a request
const MOST_RESULTS = 8;

// Neighbouring segments as passages {start, end, text}.
export function passagesOf(segments) {
  const passages = [];
  for (const { start, end, text } of segments) {
    const last = passages.at(-1);
    if (last && last.text.length + text.length <= PASSAGE_CHARACTERS) {
      last.text += ` ${text.trim()}`;
      last.end = end;
    } else if (text.trim()) {
      passages.push({ start, end, text: text.trim() });
    }
  }
  return passages;
}

// Little-endian f32 in base64 -> a vector of length 1.
function unitVector(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const vector = new Float32Array(bytes.buffer);
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);

export class Search {
  #recordings;
  #vectors = new Map();  // text -> vector
  #play;
  #abort = null;
  model = null;  // of the server; none: no search

  // `play(recording, seconds)`
  constructor(recordings, play) {
    this.#recordings = recordings;
    this.#play = play;
    byId("search").onsubmit = (event) => {
      event.preventDefault();
      this.#search(byId("query").value.trim());
    };
  }

  async #embed(texts, signal) {
    const missing = [...new Set(texts)].filter((text) => !this.#vectors.has(text));
    for (let from = 0; from < missing.length; from += BATCH) {
      const input = missing.slice(from, from + BATCH);
      const response = await request("v1/embeddings",
        { json: { model: this.model, input, encoding_format: "base64" }, signal });
      for (const { index, embedding } of (await response.json()).data) {
        this.#vectors.set(input[index], unitVector(embedding));
      }
    }
    return texts.map((text) => this.#vectors.get(text));
  }

  // Passages {recording, start, end, text, score}, the best first.
  async #ranked(recordings, query, signal) {
    const passages = recordings.flatMap((recording) =>
      passagesOf(recording.segments).map((passage) => ({ recording, ...passage })));
    const [wanted, ...vectors] =
      await this.#embed([query, ...passages.map(({ text }) => text)], signal);
    return passages.map((passage, index) => ({ ...passage, score: dot(wanted, vectors[index]) }))
      .sort((a, b) => b.score - a.score);
  }

  // The best passages of a recording, as a function of how many characters there is room for: in
  // the order of the recording.
  async passages(recording, query) {
    if (!this.model) return null;
    const ranked = await this.#ranked([recording], query);
    return (room) => {
      const kept = [];
      for (const passage of ranked) {
        if ((room -= passage.text.length + 1) < 0) break;
        kept.push(passage);
      }
      return kept.sort((a, b) => a.start - b.start).map(({ text }) => text).join("\n");
    };
  }

  async #search(query) {
    const results = byId("results");
    results.replaceChildren();
    if (!query) return;
    const recordings = this.#recordings.all.filter(({ segments }) => segments.length);
    if (!recordings.length) {
      results.append(element("li", { class: "empty" }, "Nothing is transcribed yet."));
      return;
    }
    this.#abort?.abort();
    this.#abort = new AbortController();
    try {
      const found = (await this.#ranked(recordings, query, this.#abort.signal)).slice(0, MOST_RESULTS);
      results.replaceChildren(...found.map(({ recording, start, text }) => element("li", {},
        element("button", { type: "button", class: "result",
          click: () => this.#play(recording, start) },
          element("span", { class: "where" },
            (recordings.length > 1 ? `${recording.name} · ` : "") + clock(start)), " ",
          text))));
      announce(`${found.length} results`);
    } catch (error) {
      if (error.name === "AbortError") return;
      results.append(element("li", { class: "problem", role: "alert" }, error.message));
    }
  }
}
