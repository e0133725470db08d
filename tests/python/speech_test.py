"""Speech in Python with tiny.en: the same bytes as the program, laziness, threads, signals, processes.

    speech_test.py TRANSCRIBE RECORDING...      the program, and 16 kHz mono WAVs
"""
import concurrent.futures
import copy
import gc
import io
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import wave

import numpy
import vesper

# A process that transcribes for minutes, to be interrupted.
LONG = """
import numpy, sys, vesper
model = vesper.WhisperModel("tiny.en", local_files_only=True)
samples = numpy.tile(numpy.fromfile(sys.argv[1], numpy.int16)[22:], 300)
try:
    print("begin", flush=True)
    while True:
        {work}
except KeyboardInterrupt:
    print(model.transcribe(sys.argv[1], beam_size=1).text)
    sys.exit(130)
"""
# A process that ends while a transcription is suspended or runs.
ABANDONED = """
import numpy, sys, vesper
model = vesper.WhisperModel("tiny.en", local_files_only=True)
samples = numpy.tile(numpy.fromfile(sys.argv[1], numpy.int16)[22:], 100)
segments, info = model.transcribe(samples, language="en")
next(segments)
print("end")
"""
FORKED = """
import os, sys, vesper
model = vesper.WhisperModel("tiny.en", local_files_only=True)
if os.fork() == 0:
    try:
        model.transcribe(sys.argv[1]).text
    except vesper.UsageError as error:
        os._exit(3 if "fork" in str(error) else 1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), model.transcribe(sys.argv[1]).text != "")
"""


def samples_of(path):
    with wave.open(str(path)) as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16)


def text_of(segments):
    return "".join(segment.text for segment in segments).strip()


def run(script, *arguments):
    return subprocess.run([sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


class Speech(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = vesper.WhisperModel("tiny.en", local_files_only=True)
        cls.samples = samples_of(RECORDING)
        cls.text = cls.model.transcribe(RECORDING).text

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def program(self, *arguments):
        return subprocess.run([PROGRAM, "-q", "-m", "tiny.en", *map(str, arguments)], check=True,
                              capture_output=True, text=True).stdout

    def test_every_format_has_the_bytes_of_the_program(self):
        for recording in RECORDINGS:
            result = self.model.transcribe(recording, word_timestamps=True)
            for kind in ("txt", "srt", "vtt", "tsv", "csv", "lrc", "json", "jsonl"):
                with self.subTest(recording=recording, format=kind):
                    self.assertEqual(result.to(kind), self.program("--word-timestamps", "-f", kind, recording))

    def test_options_have_the_effect_that_they_have_in_the_program(self):
        for options, arguments in (({"beam_size": 1, "temperature": 0}, ["--beam-size", 1, "--temperature", 0]),
                                   ({"vad_filter": True}, ["--vad"]),
                                   ({"initial_prompt": "Jane Austen."}, ["--initial-prompt", "Jane Austen."])):
            with self.subTest(**options):
                self.assertEqual(self.model.transcribe(RECORDING, **options).to("jsonl"),
                                 self.program(*arguments, "-f", "jsonl", RECORDING))

    def test_a_quantized_cache_has_the_bytes_of_the_program(self):
        with vesper.WhisperModel("tiny.en", local_files_only=True, kv_type="k=int8,v=int4") as model:
            found = model.transcribe(RECORDING, word_timestamps=True).to("jsonl")
        self.assertEqual(found, self.program("--word-timestamps", "--kv-type", "k=int8,v=int4", "-f", "jsonl",
                                             RECORDING))
        self.assertNotEqual(found, self.program("--word-timestamps", "-f", "jsonl", RECORDING))

    def test_batches_have_the_bytes_of_the_program(self):
        segments = vesper.BatchedInferencePipeline(self.model).transcribe(RECORDING, batch_size=4)
        self.assertEqual(segments.to("jsonl"),
                         self.program("--vad", "--batch-size", 4, "-f", "jsonl", RECORDING))

    def test_paths_bytes_files_and_arrays_give_the_same_segments(self):
        path, content = pathlib.Path(RECORDING), pathlib.Path(RECORDING).read_bytes()
        expected = self.model.transcribe(RECORDING).segments
        for audio in (path, content, io.BytesIO(content), self.samples, self.samples / numpy.float32(32768),
                      numpy.repeat(self.samples, 2)[::2], self.samples[:, None]):
            self.assertEqual(self.model.transcribe(audio).segments, expected)

    def test_a_script_for_faster_whisper_runs_with_another_import(self):
        segments, info = self.model.transcribe(RECORDING, beam_size=5, word_timestamps=True, vad_filter=True,
                                               vad_parameters=dict(min_silence_duration_ms=500),
                                               condition_on_previous_text=False)
        self.assertEqual((info.language, info.language_probability), ("en", 1))
        self.assertAlmostEqual(info.duration, len(self.samples) / 16000, places=2)
        self.assertLessEqual(info.duration_after_vad, info.duration)
        self.assertEqual(info.vad_options.min_silence_duration_ms, 500)
        words = [word for segment in segments for word in segment.words]
        self.assertTrue(all(word.start <= word.end and 0 <= word.probability <= 1 for word in words))
        self.assertIn("Dashwood", "".join(word.word for word in words))

    def test_information_that_is_asked_for_first_is_that_of_the_transcript(self):
        with vesper.WhisperModel("base", local_files_only=True) as model:
            detected = model.detect_language(RECORDING)
            with unittest.mock.patch("vesper.transcription.detect_languages") as detect_again:
                segments, info = model.transcribe(RECORDING)
                found = info.language, info.language_probability
                self.assertAlmostEqual(info.duration, len(self.samples) / 16000, places=2)
                self.assertIn("Dashwood", text_of(segments))
                detect_again.assert_not_called()
            self.assertEqual(found, (detected[0], detected[1]))
            self.assertEqual(found[0], "en")
            # Without speech there is the most probable language.
            _, info = model.transcribe(numpy.zeros(16000, numpy.float32))
            self.assertEqual((info.language, info.language_probability), info.all_language_probs[0])

    def test_segments_come_before_the_end(self):
        segments, _ = self.model.transcribe(numpy.tile(self.samples, 40))
        first = next(segments)
        self.assertEqual(first.id, 0)
        segments.close()
        self.assertEqual(self.model.transcribe(RECORDING).text, self.text)

    def test_a_suspended_transcription_gives_way_to_another_and_can_go_on(self):
        long = numpy.tile(self.samples, 20)
        expected = text_of(self.model.transcribe(long, beam_size=1).segments)
        segments, _ = self.model.transcribe(long, beam_size=1)
        first = next(segments)
        self.assertEqual(self.model.transcribe(RECORDING).text, self.text)
        self.assertEqual(text_of([first, *segments]), expected)

    def test_what_nobody_consumes_is_cancelled(self):
        result = self.model.transcribe(numpy.tile(self.samples, 200))
        next(iter(result)).__next__()
        del result
        gc.collect()
        started = time.monotonic()
        self.model.transcribe(RECORDING).text
        self.assertLess(time.monotonic() - started, 60)  # the whole would take minutes

    def test_an_error_in_a_callback_ends_the_transcription(self):
        def fail(done_s, total_s):
            raise ZeroDivisionError("mine")
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.model.transcribe(RECORDING, on_progress=fail).text

    def test_errors_have_kinds(self):
        for kind, audio, options in ((vesper.InputError, "absent.wav", {}), (vesper.InputError, b"RIFF", {}),
                                     (vesper.InputError, numpy.full(16000, numpy.nan, numpy.float32), {}),
                                     (vesper.UsageError, RECORDING, {"language": "klingon"}),
                                     (vesper.UsageError, RECORDING, {"beam_size": 100}),
                                     (vesper.UsageError, self.samples, {"sampling_rate": 0})):
            with self.subTest(audio=type(audio), **options), self.assertRaises(kind):
                self.model.transcribe(audio, **options).text
        self.assertEqual(self.model.transcribe(RECORDING).text, self.text)

    def test_more_beams_than_reserved_are_reserved(self):
        with vesper.WhisperModel("tiny.en", local_files_only=True) as model:
            self.assertIn("Dashwood", model.transcribe(RECORDING, beam_size=8).text)

    def test_a_file_that_cannot_be_written_is_an_output_error_and_leaves_nothing(self):
        result = self.model.transcribe(RECORDING)
        with tempfile.TemporaryDirectory() as folder:
            result.write(f"{folder}/a.srt")
            self.assertEqual(pathlib.Path(folder, "a.srt").read_text(), result.to("srt"))
            os.mkdir(f"{folder}/b.srt")
            for path in (f"{folder}/b.srt", f"{folder}/none/c.srt"):
                with self.assertRaises(vesper.OutputError):
                    result.write(path)
            with self.assertRaises(vesper.UsageError):
                result.write(f"{folder}/talk.mp9")
            self.assertEqual(sorted(os.listdir(folder)), ["a.srt", "b.srt"])

    def test_captions_become_the_transcript(self):
        with vesper.Stream(self.model, numpy.array_split(self.samples, 30), step=2) as stream:
            captions = list(stream)
        words = "".join(caption.text for caption in captions if caption.is_final)
        self.assertIn("Dashwood", words)
        self.assertIn("Dashwood", stream.transcript.text)
        self.assertEqual(self.model.transcribe(RECORDING).text, self.text)

    def test_a_stream_without_captions_has_the_text_of_the_recording(self):
        with vesper.Stream(self.model, step=None) as stream:
            for block in numpy.array_split(self.samples, 7):
                self.assertEqual(stream.push(block), [])
            stream.finish()
        self.assertEqual(stream.transcript.text, self.text)

    def test_files_that_fail_do_not_stop_the_others(self):
        good, bad, again = self.model.transcribe_files([RECORDING, "absent.wav", RECORDING])
        self.assertEqual((good.text, again.text), (self.text, self.text))
        self.assertIsInstance(bad, vesper.InputError)

    def test_threads_that_share_a_model_wait_for_each_other(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            texts = pool.map(lambda _: self.model.transcribe(RECORDING).text, range(8))
            self.assertEqual(list(texts), [self.text] * 8)

    def test_eight_models_work_at_once(self):
        def work(_):
            with vesper.WhisperModel("tiny.en", cpu_threads=1, local_files_only=True) as model:
                return model.transcribe(RECORDING).text
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(work, range(8))), [self.text] * 8)

    def test_other_threads_run_meanwhile(self):
        n_turns, done = 0, threading.Event()
        thread = threading.Thread(target=lambda: (self.model.transcribe(RECORDING).text, done.set()))
        thread.start()
        while not done.is_set():
            n_turns += 1
            time.sleep(0.001)
        thread.join()
        self.assertGreater(n_turns, 10)

    def test_a_closed_model_is_a_usage_error(self):
        model = vesper.WhisperModel("tiny.en", local_files_only=True)
        model.close()
        model.close()
        with self.assertRaisesRegex(vesper.UsageError, "closed"):
            model.transcribe(RECORDING)

    def test_models_are_neither_pickled_nor_copied(self):
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "WhisperModel"):
                function(self.model)

    def test_a_forked_child_gets_an_error_and_its_parent_goes_on(self):
        result = run(FORKED, RECORDING)
        self.assertEqual((result.stdout, result.stderr), ("3 True\n", ""))

    def test_an_interpreter_ends_with_a_suspended_transcription(self):
        result = run(ABANDONED, RECORDING)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "end\n", ""))

    def test_ctrl_c_ends_a_call_and_the_model_remains_usable(self):
        for work in ("model.transcribe(samples).text", "for segment in model.transcribe(samples): list(segment)",
                     "model.find_speech(samples)",
                     "model.transcribe_files([sys.argv[1]] * 500)"):
            with self.subTest(work):
                process = subprocess.Popen([sys.executable, "-c", LONG.format(work=work), RECORDING],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(process.stdout.readline(), "begin\n")
                time.sleep(1)
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=60)
                self.assertEqual((process.returncode, errors), (130, ""))
                self.assertIn("Dashwood", output)


if __name__ == "__main__":
    if "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        sys.exit("speech_test.py: Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
    PROGRAM, *RECORDINGS = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    RECORDING = RECORDINGS[0]
    unittest.main(argv=sys.argv[:1] + [argument for argument in sys.argv[1:] if argument.startswith("-")])
