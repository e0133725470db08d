// Questions about the selected transcript to a language model.

import { events, request } from "./api.js";
import { announce, byId, element } from "./page.js";
import { textOf } from "./segments.js";

// About 1500 tokens of English: with the question and the answer, within 2048 positions, the context
// of small models.
const MOST_CHARACTERS = 6000;
// Small models often repeat themselves to the end of their context.
const MOST_ANSWER_TOKENS = 400;
// Low, since an answer should keep to the transcript.
const TEMPERATURE = 0.3;

// The instructions for the model: the text, or the passages of it that `search` finds.
async function instructions(recording, question, search) {
  if (!recording?.segments.length) return "You are a helpful assistant. Answer briefly.";
  const all = textOf(recording.segments);
  let text = all, what = "the transcript of a recording";
  if (all.length > MOST_CHARACTERS) {
    what = "parts of the transcript of a recording";
    const found = await search.passages(recording, question).catch(() => null);
    text = found ? found(MOST_CHARACTERS) : all.slice(0, MOST_CHARACTERS);
  }
  return `Answer questions about ${what} briefly, and only from it. The transcript:\n\n${text}`;
}

export function startChat(recordings, search) {
  const form = byId("chat"), list = byId("messages"), question = byId("question");
  const ask = byId("ask"), stop = byId("stop");
  let conversation = [];  // {role, content}
  let abort = null;

  function show(role, content) {
    const text = element("p", { dir: "auto" }, content);
    const item = element("li", { class: role },
      element("span", { class: "hidden" }, role === "user" ? "You: " : "Answer: "), text);
    list.append(item);
    byId("clear").hidden = false;
    list.scrollTop = list.scrollHeight;
    return text;
  }

  function setBusy(is_busy) {
    // The focus stays on the button in this place.
    const had_focus = [ask, stop].includes(document.activeElement);
    ask.hidden = is_busy;
    stop.hidden = !is_busy;
    if (had_focus) (is_busy ? stop : ask).focus();
    list.setAttribute("aria-busy", is_busy);
  }

  async function send() {
    const content = question.value.trim();
    if (!content || abort) return;
    question.value = "";
    abort = new AbortController();
    setBusy(true);
    show("user", content);
    const shown = show("assistant", "");
    shown.classList.add("waiting");
    let answer = "";
    const asked = [...conversation, { role: "user", content }];
    try {
      const system = await instructions(recordings.selected, content, search);
      const response = await request("v1/chat/completions", {
        signal: abort.signal,
        json: {
          model: byId("chat-model").value, stream: true,
          max_tokens: MOST_ANSWER_TOKENS, temperature: TEMPERATURE,
          messages: [{ role: "system", content: system }, ...asked],
        },
      });
      for await (const event of events(response)) {
        answer += event.choices?.[0]?.delta?.content ?? "";
        shown.textContent = answer.trim();
        list.scrollTop = list.scrollHeight;
      }
      announce(`Answer: ${answer}`);
    } catch (error) {
      if (error.name === "AbortError") {
        announce("Stopped");
        if (!answer) shown.textContent = "Stopped.";
      } else {
        shown.parentElement.append(element("p", { class: "problem", role: "alert" }, error.message));
      }
    }
    shown.classList.remove("waiting");
    if (answer) conversation = [...asked, { role: "assistant", content: answer }];
    abort = null;
    setBusy(false);
  }

  form.onsubmit = (event) => {
    event.preventDefault();
    send();
  };
  question.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  stop.onclick = () => abort?.abort();
  const clear = () => {
    abort?.abort();
    conversation = [];
    list.replaceChildren();
    byId("clear").hidden = true;
  };
  byId("clear").onclick = () => {
    clear();
    question.focus();
  };
  recordings.addEventListener("selected", clear);
}
