// Runs in the audio thread: sends blocks of the microphone's first channel as 16-bit samples.

class Capture extends AudioWorkletProcessor {
  #length = Math.round(sampleRate / 20);  // 20 messages a second
  #block = new Int16Array(this.#length);
  #n = 0;

  process([[samples]]) {
    for (const sample of samples ?? []) {
      this.#block[this.#n++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.#n < this.#length) continue;
      this.port.postMessage(this.#block.buffer, [this.#block.buffer]);
      this.#block = new Int16Array(this.#length);
      this.#n = 0;
    }
    return true;
  }
}
registerProcessor("capture", Capture);
