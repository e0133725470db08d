"""Arguments and samples that need no model: what is converted, and what is refused by name."""
import inspect
import math
import unittest

import numpy
import vesper
from vesper import _structs
from vesper._audio import Samples, Source, float_samples
from vesper._options import default_options
from vesper._speech_options import transcribe_options
from vesper.speech import WhisperModel, all_arguments


def options_of(**given):
    return transcribe_options(all_arguments(given)[0])


class Arguments(unittest.TestCase):
    def test_defaults_of_the_signature_are_those_of_the_library(self):
        library, ours = default_options(_structs.TranscribeOptions, "transcribe_options_init"), options_of()
        for name, kind in ((field[0], field[1]) for field in _structs.TranscribeOptions._fields_):
            expected, found = getattr(library, name), getattr(ours, name)
            if name in ("prepend_punctuations", "append_punctuations"):
                continue  # NULL means the texts that the signature shows
            if name == "temperatures":
                numbers = [[round(options.temperatures[i], 9) for i in range(options.n_temperatures)]
                           for options in (library, ours)]
                self.assertEqual(*numbers)
            elif isinstance(expected, (int, float, bytes, type(None))) and not (
                    isinstance(expected, float) and math.isnan(expected)):
                self.assertEqual(found, expected, name)
            elif isinstance(expected, float):
                self.assertTrue(math.isnan(found), name)

    def test_every_argument_is_known(self):
        parameters = set(inspect.signature(WhisperModel.transcribe).parameters)
        options_of()  # raises KeyError for an argument that no table has
        self.assertLess({"beam_size", "vad_parameters", "hotwords"}, parameters)

    def test_a_value_without_a_counterpart_is_refused_by_name(self):
        for name, value in {"log_progress": True, "prompt_reset_on_temperature": 0.7, "suppress_blank": False,
                            "chunk_length": 20, "length_penalty": 0.6, "task": "sing", "beam_size": -1,
                            "max_new_tokens": 0, "channels": "left", "clip_timestamps": "a,b",
                            "vad_parameters": {"onset": 0.5}, "hotwords": "a\0b",
                            "no_speech_threshold": math.nan}.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, name) as caught:
                options_of(**{name: value})
            self.assertEqual(caught.exception.setting, name)

    def test_a_value_of_another_type_is_refused_by_name(self):
        for name, value in {"beam_size": 2.5, "patience": "1", "initial_prompt": [50363], "hotwords": 3,
                            "temperature": "hot", "suppress_tokens": ["a"], "vad_parameters": [0.5]}.items():
            with self.subTest(name), self.assertRaisesRegex(TypeError, name):
                options_of(**{name: value})

    def test_an_unknown_name_is_a_type_error(self):
        with self.assertRaisesRegex(TypeError, "beam_width"):
            options_of(beam_width=5)

    def test_none_switches_a_threshold_off(self):
        options = options_of(no_speech_threshold=None, log_prob_threshold=None)
        self.assertTrue(math.isnan(options.no_speech_threshold) and math.isnan(options.logprob_threshold))

    def test_minus_one_stands_for_the_tokens_of_the_model(self):
        options = options_of(suppress_tokens=[-1, 7, 9])
        self.assertEqual((options.suppress_model_tokens, options.suppress_tokens[:2]), (1, [7, 9]))
        self.assertEqual(options_of(suppress_tokens=None).suppress_model_tokens, 0)

    def test_clips_are_a_text_or_numbers(self):
        self.assertEqual(options_of(clip_timestamps="1,2.5").clip_timestamps[:2], [1, 2.5])
        self.assertEqual(options_of(clip_timestamps=[1, 2.5]).clip_timestamps[:2], [1, 2.5])
        self.assertEqual(options_of(clip_timestamps="0").n_clip_timestamps, 0)

    def test_adapters_are_a_path_or_scales_by_path(self):
        for adapters in ({"an-adapter": math.inf}, {"an-adapter": 1, "another": -math.inf}):
            with self.assertRaisesRegex(ValueError, "adapters: expected a finite scale") as caught:
                vesper.LanguageModel("smollm2-135m", local_files_only=True, adapters=adapters)
            self.assertEqual(caught.exception.setting, "adapters")
        with self.assertRaisesRegex(TypeError, "adapters"):
            vesper.LanguageModel("smollm2-135m", local_files_only=True, adapters={"an-adapter": "much"})

    def test_opening_refuses_what_it_cannot_honour_by_name(self):
        for name, value in {"device": "tpu", "compute_type": "int16", "num_workers": 4,
                            "cpu_threads": -1, "weights": "q9_z", "kv_type": "int4"}.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, name):
                vesper.WhisperModel("tiny.en", local_files_only=True, **{name: value})

    def test_a_missing_model_is_a_model_error(self):
        with self.assertRaisesRegex(vesper.ModelError, "no-such-model"):
            vesper.WhisperModel("no-such-model", local_files_only=True)


class SamplesOfArrays(unittest.TestCase):
    def test_contiguous_float32_is_not_copied(self):
        samples = numpy.arange(8, dtype=numpy.float32)
        self.assertEqual(float_samples(samples).ctypes.data, samples.ctypes.data)

    def test_strides_byte_orders_and_smaller_types_keep_their_values(self):
        samples = numpy.linspace(-1, 1, 64, dtype=numpy.float32)
        for other in (samples[::3], samples[::-1], samples.astype(">f4"), samples.astype(numpy.float16)):
            found = float_samples(other)
            self.assertTrue(found.flags.c_contiguous and found.dtype == numpy.dtype("=f4"))
            self.assertTrue((found == other).all())

    def test_int16_of_any_byte_order_has_full_scale_32768(self):
        for kind in ("<i2", ">i2"):
            found = float_samples(numpy.array([-32768, 0, 16384], kind))
            self.assertEqual((found.dtype, found.tolist()), (numpy.float32, [-1, 0, 0.5]))

    def test_types_that_lose_digits_are_refused(self):
        for kind in ("float64", "int32", "uint8", "complex64", "bool", "object", "U4"):
            with self.subTest(kind), self.assertRaisesRegex(ValueError, "audio: expected .*" + kind[:3]):
                float_samples(numpy.zeros(4, kind))

    def test_other_shapes_are_refused(self):
        for shape in ((), (1, 2, 3)):
            with self.subTest(shape), self.assertRaisesRegex(ValueError, "shape"):
                float_samples(numpy.zeros(shape, numpy.float32))
        for shape in ((4, 0), (4, 300)):
            with self.subTest(shape), self.assertRaisesRegex(ValueError, "channels"):
                Samples(numpy.zeros(shape, numpy.float32), 16000)

    def test_other_objects_are_a_type_error(self):
        for audio in (None, 3, ["talk.wav"]):
            with self.subTest(audio), self.assertRaisesRegex(TypeError, "audio"):
                Source(audio, 16000)

    def test_no_bytes_are_an_input_error(self):
        with self.assertRaises(vesper.InputError):
            Source(b"", 16000)


if __name__ == "__main__":
    unittest.main()
