#!/usr/bin/env python3
"""The server as OpenAI's own Python client sees it, with real models.

    tests/serve/openai_test.py PROGRAM RECORDING

Runs itself again with the Python of tests/serve/fetch_clients.sh.
"""
import array
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import wave

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "vesper"
KEY = "sk-test"
PROGRAM, RECORDING = "", ""  # the arguments


class Server:
    """A running server; its log is kept."""

    def __init__(self, *options, **environment):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([PROGRAM, "--port", "0", "--offline", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.log, env=os.environ | environment)
        self.url = self.wait_for(r"event=listening url=(\S+)")[1]

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def wait_for(self, pattern):
        for _ in range(600):
            if found := re.search(pattern, self.text()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"expected {pattern} in the log, found:\n{self.text()}")

    def stop(self):
        """Its exit status."""
        self.process.send_signal(signal.SIGTERM)  # nothing, if it has ended
        status = self.process.wait(60)
        self.log.close()
        return status


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        keys = pathlib.Path(cls.folder.name) / "keys"
        keys.write_text(f"tester {hashlib.sha256(KEY.encode()).hexdigest()}\n")
        cls.server = Server("-m", "tiny.en", "-m", "smollm2-135m", "-m", "all-minilm-l6-v2", "--api-keys", str(keys))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        cls.folder.cleanup()
        assert status == 0, status

    def chat(self, text="Name three rivers.", **fields):
        return self.client.chat.completions.create(model="smollm2-135m", messages=[{"role": "user", "content": text}],
                                                   **({"max_tokens": 12, "temperature": 0} | fields))

    def transcribe(self, **fields):
        with open(RECORDING, "rb") as file:
            return self.client.audio.transcriptions.create(file=file, model="tiny.en", **fields)

    def speech_at_24_khz(self):
        """The recording as base64 texts of 0.1 s, and a second of silence."""
        with wave.open(RECORDING) as file:
            self.assertEqual((file.getframerate(), file.getnchannels(), file.getsampwidth()), (16000, 1, 2))
            samples = array.array("h", file.readframes(file.getnframes()))
        samples.append(0)
        made = array.array("h")
        for i in range((len(samples) - 1) * 3 // 2):
            before, thirds = divmod(2 * i, 3)
            made.append(round((samples[before] * (3 - thirds) + samples[before + 1] * thirds) / 3))
        data = made.tobytes() + bytes(48000)
        return [base64.b64encode(data[at:at + 4800]).decode() for at in range(0, len(data), 4800)]

    def turn_of(self, connection):
        """The types of the events up to the end of the first turn, without repetitions, and its text."""
        types, text = [], ""
        for event in connection:
            self.assertNotEqual(event.type, "error", event)
            if not types or types[-1] != event.type:
                types.append(event.type)
            if event.type == "conversation.item.input_audio_transcription.delta":
                text += event.delta
            if event.type == "conversation.item.input_audio_transcription.completed":
                self.assertEqual(event.transcript, text)
                return types, text

    def test_realtime_transcription_with_turns_of_the_client(self):
        session = {"type": "transcription", "audio": {"input": {
            "format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None,
            "transcription": {"model": "tiny.en", "language": "en", "prompt": ""}}}}
        with self.client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            self.assertEqual(connection.recv().type, "session.created")
            connection.session.update(session=session)
            self.assertEqual(connection.recv().session.audio.input.turn_detection, None)
            for text in self.speech_at_24_khz():
                connection.input_audio_buffer.append(audio=text)
            connection.input_audio_buffer.commit()
            types, text = self.turn_of(connection)
            self.assertIn("dashwood", text.lower())
            self.assertIn("input_audio_buffer.committed", types)
            self.assertIn("conversation.item.added", types)
            connection.input_audio_buffer.commit(event_id="empty")
            self.assertEqual(connection.recv().error.event_id, "empty")
            connection.input_audio_buffer.clear()
            self.assertEqual(connection.recv().type, "input_audio_buffer.cleared")

    def test_realtime_transcription_finds_the_turns(self):
        with self.client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            self.assertEqual(connection.recv().session.audio.input.turn_detection.type, "server_vad")
            connection.session.update(session={"type": "transcription", "audio": {"input": {
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 700}}}})
            self.assertEqual(connection.recv().type, "session.updated")
            for text in self.speech_at_24_khz():
                connection.input_audio_buffer.append(audio=text)
            types, text = self.turn_of(connection)
            self.assertEqual(types[0], "input_audio_buffer.speech_started")
            stopped = types.index("input_audio_buffer.speech_stopped")
            self.assertEqual(types[stopped + 1], "input_audio_buffer.committed")
            self.assertIn("dashwood", text.lower())

    def test_realtime_messages_of_older_clients(self):
        client = self.client.with_options(websocket_base_url=self.server.url.replace("http", "ws") + "/v1")
        with client.beta.realtime.connect(model="tiny.en", extra_query={"intent": "transcription"}) as connection:
            self.assertEqual(connection.recv().type, "transcription_session.created")
            connection.transcription_session.update(session={
                "input_audio_format": "pcm16", "turn_detection": None,
                "input_audio_transcription": {"model": "tiny.en", "language": "en"}})
            self.assertEqual(connection.recv().session.input_audio_format, "pcm16")
            for text in self.speech_at_24_khz():
                connection.input_audio_buffer.append(audio=text)
            connection.input_audio_buffer.commit()
            types, text = self.turn_of(connection)
            self.assertIn("conversation.item.created", types)
            self.assertIn("dashwood", text.lower())

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()],
                         ["tiny.en", "smollm2-135m", "all-minilm-l6-v2"])
        self.assertEqual(self.client.models.retrieve("tiny.en").id, "tiny.en")

    def test_a_chat_whole_and_streamed(self):
        whole = self.chat()
        choice = whole.choices[0]
        self.assertEqual((choice.finish_reason, whole.usage.completion_tokens), ("length", 12))
        self.assertTrue(choice.message.content)
        text, usage = "", None
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            text += "".join(part.delta.content or "" for part in chunk.choices)
            usage = chunk.usage or usage
        self.assertEqual(text, choice.message.content)
        self.assertEqual(usage.completion_tokens, 12)

    def test_chats_at_once_get_the_same_answer_as_alone(self):
        alone = self.chat().choices[0].message.content
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: self.chat().choices[0].message.content, range(8)))
        self.assertEqual(answers, [alone] * 8)

    def test_requests_at_once_compute_a_common_beginning_once(self):
        system = " ".join(f"Rule {i}: answer politely." for i in range(40))
        n_system = len(self.client.post("/../tokenize", body={"content": system}, cast_to=object)["tokens"])

        def cached_tokens(i):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Question {i}?"}]
            answer = self.client.chat.completions.create(model="smollm2-135m", messages=messages, max_tokens=2)
            return answer.usage.prompt_tokens_details.cached_tokens

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = sorted(pool.map(cached_tokens, range(16)))
        self.assertGreater(n_system, 200)
        self.assertLess(found[0], n_system)
        self.assertGreaterEqual(found[1], n_system)

    def test_the_probabilities_of_a_stream_come_with_their_text(self):
        chunks = [chunk.choices[0] for chunk in self.chat(stream=True, logprobs=True)]
        for choice in chunks:
            tokens = choice.logprobs.content if choice.logprobs else []
            self.assertEqual("".join(token.token for token in tokens), choice.delta.content or "")
        self.assertEqual(sum(len(choice.logprobs.content) for choice in chunks if choice.logprobs), 12)

    def test_sampling_stops_and_log_probabilities(self):
        first, second = (self.chat(temperature=1.0, seed=7, top_p=0.9, presence_penalty=0.5) for _ in range(2))
        self.assertEqual(first.choices[0].message.content, second.choices[0].message.content)
        stopped = self.chat("Count from 1 to 9.", stop=["3"], max_tokens=40).choices[0]
        self.assertEqual(stopped.finish_reason, "stop")
        self.assertNotIn("3", stopped.message.content)
        tokens = self.chat(logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
        self.assertEqual(len(tokens), 4)
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob, places=3)
        banned = tokens[0]
        identifier = self.client.post("/../tokenize", body={"content": banned.token}, cast_to=object)["tokens"]
        other = self.chat(logit_bias={str(identifier[0]): -100}, max_tokens=1).choices[0].message.content
        self.assertNotEqual(other, banned.token)
        self.assertEqual(len(self.chat(n=3, temperature=1).choices), 3)

    def test_an_answer_fits_its_schema(self):
        class Person(pydantic.BaseModel):
            name: str
            age: int

        parsed = self.client.chat.completions.parse(
            model="smollm2-135m", messages=[{"role": "user", "content": "Invent a person."}],
            response_format=Person, max_tokens=200, temperature=0)
        self.assertIsInstance(parsed.choices[0].message.parsed, Person)
        answer = self.chat("Give me JSON.", response_format={"type": "json_object"}, max_tokens=300)
        if answer.choices[0].finish_reason == "stop":
            json.loads(answer.choices[0].message.content)

    def test_completions(self):
        answer = self.client.completions.create(model="smollm2-135m", prompt=["The capital of France is", "1, 2, 3,"],
                                                max_tokens=5, temperature=0, logprobs=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertIn("Paris", answer.choices[0].text)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 5)
        text = "".join(chunk.choices[0].text for chunk in self.client.completions.create(
            model="smollm2-135m", prompt="1, 2, 3,", max_tokens=5, temperature=0, stream=True) if chunk.choices)
        self.assertEqual(text, answer.choices[1].text)

    def test_embeddings(self):
        texts = ["The cat sits outside.", "A cat is outdoors.", "Stocks fell sharply."]
        answer = self.client.embeddings.create(model="all-minilm-l6-v2", input=texts)  # asks for base64
        first, second, third = (item.embedding for item in answer.data)
        self.assertEqual(len(first), 384)
        similar, different = (sum(a * b for a, b in zip(first, other)) for other in (second, third))
        self.assertGreater(similar, different + 0.3)
        plain = self.client.embeddings.create(model="all-minilm-l6-v2", input=texts[0], encoding_format="float")
        for a, b in zip(plain.data[0].embedding, first):
            self.assertAlmostEqual(a, b, places=5)
        short = self.client.embeddings.create(model="all-minilm-l6-v2", input=texts[0], dimensions=64)
        self.assertEqual(len(short.data[0].embedding), 64)

    def test_transcriptions(self):
        text = self.transcribe().text
        self.assertIn("dashwood", text.lower())
        self.assertEqual(self.transcribe(response_format="text").strip(), text)
        self.assertTrue(self.transcribe(response_format="srt").startswith("1\n00:00:0"))
        self.assertTrue(self.transcribe(response_format="vtt").startswith("WEBVTT"))
        verbose = self.transcribe(response_format="verbose_json", timestamp_granularities=["word", "segment"])
        self.assertEqual(verbose.text, text)
        self.assertEqual(verbose.language, "english")
        self.assertEqual(" ".join(word.word for word in verbose.words), text)
        self.assertEqual("".join(segment.text for segment in verbose.segments).strip(), text)
        events = list(self.transcribe(stream=True))
        self.assertEqual(events[-1].text, text)
        self.assertEqual("".join(event.delta for event in events[:-1]), text)

    def test_errors_have_the_classes_of_the_api(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=7)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "f"}}])
        self.assertEqual(caught.exception.param, "tools")  # the template of SmolLM2 has none
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="sk-other").models.list()
        with self.assertRaises(openai.BadRequestError):
            self.client.audio.transcriptions.create(file=("a.wav", b"no recording"), model="tiny.en")

    def test_a_client_that_leaves_ends_its_answer(self):
        stream = self.chat(stream=True, max_tokens=3000)
        next(iter(stream))
        stream.close()
        self.server.wait_for(r"path=/v1/chat/completions status=499")
        self.assertTrue(self.chat(max_tokens=1).choices)


class Running(unittest.TestCase):
    def test_models_come_and_go_within_the_memory(self):
        server = Server("-m", "smollm2-135m", "-m", "all-minilm-l6-v2", "--memory", "0.15", "--ctx", "512",
                        "--slots", "1", "--unload-after", "600")
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=120)
        for _ in range(2):
            client.completions.create(model="smollm2-135m", prompt="a", max_tokens=1)
            client.embeddings.create(model="all-minilm-l6-v2", input="a")
        self.assertEqual(len(re.findall("all-minilm-l6-v2: loaded", server.text())), 2)
        self.assertEqual(len(re.findall("smollm2-135m: unloaded", server.text())), 2)
        client.close()
        self.assertEqual(server.stop(), 0)

    def test_a_stop_lets_an_answer_end(self):
        server = Server("-m", "smollm2-135m")
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=120)
        stream = iter(client.completions.create(model="smollm2-135m", prompt="Once", max_tokens=32, temperature=0,
                                                stream=True, extra_body={"ignore_eos": True}))
        n = 1 if next(stream).choices[0].text else 0
        server.process.send_signal(signal.SIGTERM)
        reasons = [chunk.choices[0].finish_reason for chunk in stream]
        self.assertIn(reasons[-1], ("length", "stop"))
        self.assertGreater(len(reasons) + n, 5)
        client.close()
        # Another signal would end the server at once.
        self.assertEqual(server.process.wait(60), 0)
        server.log.close()


def use_client():
    """Runs the test again with the Python that has OpenAI's client. Takes PROGRAM and RECORDING from the arguments."""
    global PROGRAM, RECORDING
    if os.environ.get("VESPER_TEST_WITHOUT_MODELS"):
        print(": Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
        sys.exit(0)
    interpreters = sorted(CACHE.glob("openai-*/bin/python"))
    assert interpreters, f"{CACHE}: expected openai-VERSION of tests/serve/fetch_clients.sh, found none"
    if pathlib.Path(sys.prefix) != interpreters[-1].parent.parent:
        os.execv(interpreters[-1], [str(interpreters[-1]), *sys.argv])
    PROGRAM, RECORDING = sys.argv[1:3]
    del sys.argv[1:3]


if __name__ == "__main__":
    use_client()
    import openai
    import pydantic

    unittest.main(verbosity=2)
