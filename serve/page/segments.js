// Transcripts as data. A segment is {start, end, text, words: [{word, start, end}]}, times in
// seconds; a word has its leading space.

// A segment of the API as one of the page. Without word times, the segment is one word.
export function withWords({ start, end, text, words }) {
  return { start, end, text, words: words?.length ? words : [{ word: text, start, end }] };
}

export const textOf = (segments) => segments.map((segment) => segment.text.trim()).join("\n");

// The words of a text that replaces `segment.text`. Words at its beginning and end that are as
// before keep their times; the others share the time between them by length.
export function editedSegment(segment, text) {
  const plain = text.replace(/\s+/g, " ").trim();
  const said = plain.match(/\S+/g) ?? [];
  const old = segment.words;
  const same = (a, b) => old[a] !== undefined && old[a].word.trim() === said[b];
  let before = 0;
  while (before < Math.min(old.length, said.length) && same(before, before)) ++before;
  let after = 0;
  while (after < Math.min(old.length, said.length) - before &&
         same(old.length - 1 - after, said.length - 1 - after)) ++after;

  const changed = said.slice(before, said.length - after);
  const replaced = old.slice(before, old.length - after);
  const start = replaced[0]?.start ?? old[before - 1]?.end ?? segment.start;
  const end = replaced.at(-1)?.end ?? old[old.length - after]?.start ?? segment.end;
  const length = changed.join("").length;
  let done = 0;
  const timed = changed.map((word) => {
    const from = start + (end - start) * done / length;
    done += word.length;
    return { word: ` ${word}`, start: from, end: start + (end - start) * done / length };
  });
  const words = [...old.slice(0, before), ...timed, ...old.slice(old.length - after)];
  return { ...segment, text: plain && ` ${plain}`, words };
}

// Index of the word that is played at `time`: the last one that began. -1 before the first.
export function wordAt(starts, time) {
  let low = 0, high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Builds segments from the final words of a live stream, which open a segment by a flag.
export class LiveSegments {
  segments = [];
  add(words) {
    for (const { word, start, end, opens_segment } of words) {
      let last = this.segments.at(-1);
      // Marks come after the stem that they belong to.
      if (last && /^[^\p{L}\p{N}\s]+\s*$/u.test(word)) {
        last.words.at(-1).word += word;
      } else {
        if (!last || opens_segment) {
          last = { start, end, text: "", words: [] };
          this.segments.push(last);
        }
        last.words.push({ word, start, end });
      }
      last.end = Math.max(last.end, end);
      last.text = last.words.map((each) => each.word).join("");
    }
  }
}
