"""Transcribes one recording with faster-whisper; run by compare_speech.py in a separate process.

    compare_faster_whisper.py MODEL_FOLDER RECORDING THREADS COMPUTE_TYPE BATCH_SIZE

BATCH_SIZE 0 decodes windows one after another. Prints JSON: text, load_s, transcribe_s, and ready_s,
from the start of the process to the end of the imports.
"""

import json
import os
import sys
import time


def seconds_since_start_of_process():
    with open("/proc/self/stat") as file:
        start_ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - start_ticks / os.sysconf("SC_CLK_TCK")


def main():
    folder, recording, threads, compute_type, batch_size = sys.argv[1:]
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    ready_s = seconds_since_start_of_process()
    start = time.perf_counter()
    model = WhisperModel(folder, device="cpu", compute_type=compute_type, cpu_threads=int(threads),
                         local_files_only=True)
    loaded = time.perf_counter()
    options = {"language": "en", "beam_size": 1, "temperature": [0.0],
               "condition_on_previous_text": False}
    if int(batch_size) > 0:
        model, options["batch_size"] = BatchedInferencePipeline(model), int(batch_size)
    segments, _ = model.transcribe(recording, **options)
    text = "".join(segment.text for segment in segments)
    end = time.perf_counter()
    json.dump({"text": text, "ready_s": ready_s, "load_s": loaded - start,
               "transcribe_s": end - loaded}, sys.stdout)


if __name__ == "__main__":
    main()
