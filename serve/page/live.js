// Speech from the microphone: samples to the server by a WebSocket, captions back
// (docs/serve.md has the messages).

import { apiKey, askForKey } from "./api.js";
import { byId, showProblem } from "./page.js";
import { LiveSegments } from "./segments.js";

const SAMPLE_RATE_HZ = 16000;  // of Whisper: more would only cost bandwidth
const MOST_WAITING_S = 30;     // of audio that the connection has not taken

// A WAV file (16-bit mono) of blocks of samples.
function wav(blocks, sampleRate) {
  const bytes = blocks.reduce((sum, block) => sum + block.byteLength, 0);
  const header = new DataView(new ArrayBuffer(44));
  const text = (at, value) => [...value].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  header.setUint32(4, 36 + bytes, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, sampleRate, true);
  header.setUint32(28, sampleRate * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  text(36, "data");
  header.setUint32(40, bytes, true);
  return new Blob([header, ...blocks], { type: "audio/wav" });
}

// A browser can give a key of the API to a WebSocket only as the name of a protocol.
function connect() {
  const url = new URL("v1/audio/stream", document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  const key = apiKey();
  const socket = new WebSocket(url, ["vesper", ...key ? [`openai-insecure-api-key.${key}`] : []]);
  socket.binaryType = "arraybuffer";
  return socket;
}

class LiveRecording {
  #blocks = [];
  #text = new LiveSegments();
  #is_refused = true;  // until the server has answered
  #is_stopped = false;

  constructor(recordings, stream, { model, language }) {
    this.recordings = recordings;
    this.stream = stream;
    this.start = { model, format: "pcm16", channels: 1, ...language ? { language } : {} };
    const time = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    this.recording = recordings.add({ name: `Spoken ${time}`, state: "listening", model, language });
  }

  async open() {
    this.context = new AudioContext({ sampleRate: SAMPLE_RATE_HZ });
    await this.context.audioWorklet.addModule("capture.js");
    let source;
    try {
      source = this.context.createMediaStreamSource(this.stream);
    } catch {
      // This browser does not resample a microphone; the server does.
      await this.context.close();
      this.context = new AudioContext();
      await this.context.audioWorklet.addModule("capture.js");
      source = this.context.createMediaStreamSource(this.stream);
    }
    const capture = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0 });
    capture.port.onmessage = ({ data }) => this.#send(data);
    source.connect(capture);
    this.#connect();
  }

  #connect() {
    this.socket = connect();
    this.socket.onopen = () => {
      this.socket.send(JSON.stringify({ ...this.start, sample_rate: this.context.sampleRate }));
      for (const block of this.#blocks) this.socket.send(block);
      if (this.#is_stopped) this.#sayEnd();
    };
    this.socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.socket.onclose = ({ reason }) => this.#closed(reason);
  }

  #send(block) {
    if (this.#is_stopped) return;  // the audio thread may be a block behind
    this.#blocks.push(block);
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(block);
    const waiting_s = this.socket.bufferedAmount / 2 / this.context.sampleRate;
    if (waiting_s > MOST_WAITING_S) this.#end("The connection is too slow for live captions");
  }

  #receive(message) {
    const { recordings, recording } = this;
    this.#is_refused = false;
    if (message.type === "final") {
      this.#text.add(message.words);
      recordings.update(recording, { segments: [...this.#text.segments] });
    } else if (message.type === "partial") {
      recordings.update(recording, { partial: message.text });
    } else if (message.type === "done") {
      if (message.language) recording.language = message.language;
      this.#end(null);
    } else if (message.type === "error") {
      this.#end(message.error.message);
    }
  }

  async #closed(reason) {
    if (this.recording.state !== "listening") return;
    // A browser does not tell a page why a server refused: ask for the key if there may be one.
    if (this.#is_refused) {
      const { status } = await fetch("v1/models",
        apiKey() ? { headers: { Authorization: `Bearer ${apiKey()}` } } : {}).catch(() => ({}));
      if (status === 401 && await askForKey()) return this.#connect();
    }
    this.#end(reason || (this.#is_refused ? "The server refused live captions"
                                          : "The connection to the server broke"));
  }

  #sayEnd() {
    this.socket.send(JSON.stringify({ type: "end" }));
  }

  // Stops the microphone. The server answers with the rest of the text.
  stop() {
    if (this.#is_stopped) return;
    this.#is_stopped = true;
    for (const track of this.stream.getTracks()) track.stop();
    if (this.socket?.readyState === WebSocket.OPEN) this.#sayEnd();
    this.on_stop?.();
  }

  #end(error) {
    this.stop();
    this.socket?.close();
    const { sampleRate } = this.context;
    this.context.close();
    const file = wav(this.#blocks, sampleRate);
    this.recordings.update(this.recording, { partial: "" });
    this.recordings.update(this.recording, {
      state: error ? "failed" : "done", error, url: URL.createObjectURL(file),
      file: new File([file], `${this.recording.name}.wav`),  // to transcribe again
      duration: file.size / 2 / sampleRate,
    });
  }
}

export function startLive(recordings, settings) {
  const button = byId("speak");
  let live = null;
  button.onclick = async () => {
    if (live) return live.stop();
    showProblem(null);
    if (!navigator.mediaDevices) {
      showProblem("The browser gives a microphone only to pages from localhost or by HTTPS.");
      return;
    }
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    } catch (error) {
      showProblem(error.name === "NotAllowedError" ? "The browser does not allow the microphone."
        : error.name === "NotFoundError" ? "There is no microphone." : `No microphone: ${error.message}`);
      return;
    }
    live = new LiveRecording(recordings, stream, settings());
    live.on_stop = () => {
      live = null;
      button.textContent = "Speak";
      button.setAttribute("aria-pressed", "false");
    };
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    await live.open();
  };
}
