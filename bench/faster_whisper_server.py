"""Serves faster-whisper as /v1/audio/transcriptions; run by compare_serve.py in a separate process.

    faster_whisper_server.py --model FOLDER --threads N --beams N --host ADDRESS --port N

As its users do it: FastAPI calls the model from its thread pool. int8 weights are its fastest on a CPU.
"""

import argparse

import fastapi
import uvicorn
from faster_whisper import WhisperModel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--beams", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    model = WhisperModel(options.model, device="cpu", compute_type="int8", cpu_threads=options.threads,
                         local_files_only=True)
    app = fastapi.FastAPI()

    @app.get("/health")
    def health():
        return {"status": "ok"}

    # Not a coroutine, so that FastAPI runs it on a thread.
    @app.post("/v1/audio/transcriptions")
    def transcribe(file: fastapi.UploadFile, language: str = fastapi.Form()):
        segments, _ = model.transcribe(file.file, language=language, beam_size=options.beams)
        return {"text": "".join(segment.text for segment in segments)}

    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
