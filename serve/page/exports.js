// A transcript in the formats of the program `transcribe`, as it writes them
// (decoder/transcript/writers.h).

const two = (value) => String(value).padStart(2, "0");

// Rounds halves to even, as the program does.
function inUnits(seconds, perSecond) {
  if (!(seconds > 0)) return 0;
  const value = seconds * perSecond, floor = Math.floor(value);
  return value - floor === 0.5 ? floor + floor % 2 : Math.round(value);
}
const milliseconds = (seconds) => inUnits(seconds, 1000);

function clockTime(ms, mark, alwaysHours) {
  const hours = Math.floor(ms / 3600000);
  return (alwaysHours || hours ? `${two(hours)}:` : "") + two(Math.floor(ms / 60000) % 60) + ":" +
    two(Math.floor(ms / 1000) % 60) + mark + String(ms % 1000).padStart(3, "0");
}

const plain = (text) => text.replace(/[\x00-\x1f\x7f\x85\u2028\u2029]/g, " ");
const oneLine = (text) => plain(text).replace(/^ +| +$/g, "");
// "-->" separates the times of subtitles.
const withoutArrows = (text) => text.replace(/-+->/g, "->");

// Segments with text, in milliseconds.
function lines(segments) {
  return segments.map((segment) => {
    const start = milliseconds(segment.start);
    return { start, end: Math.max(start, milliseconds(segment.end)), text: oneLine(segment.text) };
  }).filter((line) => line.text);
}

// Cues do not overlap and are never empty.
function cues(segments) {
  let last = 0;
  return lines(segments).map(({ start, end, text }) => {
    const from = Math.max(start, last);
    last = Math.max(end, from + 1);
    return { start: from, end: last, text: withoutArrows(text) };
  });
}

function lrc(segments) {
  const time = (seconds) => {
    const centis = inUnits(seconds, 100);
    return `${two(Math.floor(centis / 6000))}:${two(Math.floor(centis / 100) % 60)}.${two(centis % 100)}`;
  };
  return segments.filter(({ text }) => oneLine(text)).map((segment) => {
    const words = segment.words.filter(({ word }) => oneLine(word)).map(({ word, start }) => {
      const space = plain(word).startsWith(" ") ? " " : "";
      return `${space}<${time(start)}>${space}${oneLine(word)}`;
    });
    return `[${time(segment.start)}]${words.join("")}\n`;
  }).join("");
}

function json(segments, { name, model, language, duration }) {
  const seconds = (value) => milliseconds(value) / 1000;
  return JSON.stringify({
    file: name, model,
    segments: segments.map(({ start, end, text, words }, id) => ({
      id, start: seconds(start), end: seconds(Math.max(start, end)), text,
      words: words.map((word) => (
        { word: word.word, start: seconds(word.start), end: seconds(Math.max(word.start, word.end)) })),
    })),
    text: segments.map(({ text }) => text).join(""),
    language: language || null, duration: seconds(duration),
  }, null, 1) + "\n";
}

// Each makes text of (segments, {name, model, language, duration}).
export const formats = {
  txt: (segments) => lines(segments).map(({ text }) => `${text}\n`).join(""),
  srt: (segments) => cues(segments).map(({ start, end, text }, index) =>
    `${index + 1}\n${clockTime(start, ",", true)} --> ${clockTime(end, ",", true)}\n${text}\n\n`).join(""),
  vtt: (segments) => "WEBVTT\n\n" + cues(segments).map(({ start, end, text }) =>
    `${clockTime(start, ".", false)} --> ${clockTime(end, ".", false)}\n` +
    `${text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}\n\n`).join(""),
  tsv: (segments) => "start\tend\ttext\n" +
    lines(segments).map(({ start, end, text }) => `${start}\t${end}\t${text}\n`).join(""),
  csv: (segments) => "start,end,text\n" + lines(segments).map(({ start, end, text }) =>
    `${start},${end},"${text.replaceAll('"', '""')}"\n`).join(""),
  lrc,
  json,
};
