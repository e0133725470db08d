"""Speech to text, text to text and texts to vectors on one engine.

>>> import vesper
>>> print(vesper.WhisperModel("tiny.en").transcribe("talk.wav").text[:25])
And Mr. John Dashwood had

WhisperModel and BatchedInferencePipeline take faster-whisper's arguments, Embedder and CrossEncoder
those of sentence-transformers. Errors are exceptions by kind, all of them vesper.Error.
"""
from vesper import _log as _log
from vesper._library import library as _library
from vesper._library import text as _text
from vesper.embedding import CrossEncoder, Embedder, similarity
from vesper.errors import (DeviceError, Error, InputError, InternalError, ModelError, OutputError, Stopped,
                           UsageError)
from vesper.inspection import convert, devices, diff, find_model, inspect, installed_models, known_models
from vesper.speech import BatchedInferencePipeline, WhisperModel
from vesper.stream import Caption, CaptionWord, Stream
from vesper.text import Answer, Chat, LanguageModel, TextStream
from vesper.tokenizer import Tokenizer
from vesper.transcript import Segment, Transcript, Word
from vesper.transcription import Transcription, TranscriptionInfo

__version__: str = _text(_library.version())

__all__ = [
    "Answer", "BatchedInferencePipeline", "Caption", "CaptionWord", "Chat", "CrossEncoder", "DeviceError",
    "Embedder", "Error", "InputError", "InternalError", "LanguageModel", "ModelError", "OutputError", "Segment",
    "Stopped", "Stream", "TextStream", "Tokenizer", "Transcript", "Transcription", "TranscriptionInfo",
    "UsageError", "WhisperModel", "Word", "convert", "devices", "diff", "find_model", "inspect", "installed_models",
    "known_models", "similarity",
]
