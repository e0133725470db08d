"""Language models, tokenizers and text encoders in Python: the same results as the programs.

    text_test.py GENERATE EMBED      the programs
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import vesper

PROMPT = "The history of rivers begins"
RERANKERS = pathlib.Path(__file__).resolve().parents[1] / "embedder/rerankers"
GREEDY = {"temperature": 0, "max_tokens": 24}
INTERRUPTED = """
import sys, vesper
model = vesper.LanguageModel("smollm2-135m", ignore_end=True, local_files_only=True)
try:
    print("begin", flush=True)
    {work}
except KeyboardInterrupt:
    print(model.generate("1, 2, 3,", temperature=0, max_tokens=2).text)
    sys.exit(130)
"""


def program(*arguments):
    return subprocess.run(list(map(str, arguments)), check=True, capture_output=True, text=True).stdout


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = vesper.LanguageModel("smollm2-135m", batch_size=2, local_files_only=True)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_an_answer_is_that_of_the_program(self):
        messages = [{"role": "user", "content": "Write one sentence about rivers."}]
        self.assertEqual(self.model.chat(messages, **GREEDY).text,
                         program(GENERATE, "-m", "smollm2-135m", "--temperature", 0, "-n", 24,
                                 messages[0]["content"]).rstrip("\n"))

    def test_text_and_token_ids_are_continued_alike(self):
        tokens = self.model.tokenizer.encode(PROMPT)
        self.assertEqual(self.model.generate(PROMPT, **GREEDY).text, self.model.generate(tokens, **GREEDY).text)

    def test_an_answer_fits_its_grammar(self):
        schema = {"type": "object", "required": ["name", "age"], "additionalProperties": False,
                  "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}}
        for seed in range(5):
            answer = self.model.generate(PROMPT, json_schema=schema, temperature=1, seed=seed, max_tokens=60)
            self.assertEqual(answer.end, "model")
            self.assertEqual(sorted(json.loads(answer.text)), ["age", "name"])
        self.assertIn(self.model.generate(PROMPT, regex="(yes|no)").text, ("yes", "no"))
        self.assertEqual(self.model.generate(PROMPT, grammar='root ::= "a river" "!"?').text[:7], "a river")
        self.assertIn(self.model.generate(PROMPT, json_object=True, max_tokens=4).text[0], "{[")
        with self.assertRaisesRegex(vesper.UsageError, "line 1"):
            self.model.generate(PROMPT, grammar="root ::= absent")
        with self.assertRaisesRegex(vesper.UsageError, "regex"):
            self.model.generate(PROMPT, regex="a", json_object=True)

    def test_each_of_many_answers_has_its_own_options(self):
        each = [{"regex": "a{3}"}, {"max_tokens": 2}, {"json_schema": {"const": [7]}}]
        answers = self.model.generate_many([PROMPT] * 3, each=each, temperature=0, max_tokens=8)
        self.assertEqual((answers[0].text, answers[1].n_answer, json.loads(answers[2].text)), ("aaa", 2, [7]))
        with self.assertRaisesRegex(vesper.UsageError, "3 options"):
            self.model.generate_many([PROMPT] * 3, each=each[:1])
        self.assertEqual(self.model.generate_many([], each=[]), [])

    def test_an_answer_has_biases_of_its_own(self):
        token = self.model.tokenizer.encode(" the")[0]
        self.assertEqual(self.model.generate(PROMPT, temperature=0, max_tokens=3, logit_bias={token: 1000}).tokens,
                         [token] * 3)
        free = self.model.generate(PROMPT, **GREEDY)
        self.assertNotEqual(free.tokens[:3], [token] * 3)

    def test_an_answer_says_why_it_ended_and_what_it_cost(self):
        answer = self.model.generate(PROMPT, top_logprobs=2, **GREEDY)
        self.assertEqual((answer.end, answer.n_answer, len(answer.tokens)), ("limit", 24, 24))
        self.assertTrue(all(logprob <= 0 for logprob in answer.logprobs))
        self.assertIsNotNone(answer.alternatives)
        self.assertEqual(self.model.generate("1, 2, 3,", temperature=0, stop=[",", ";"]).end, "stop")

    def test_a_seed_repeats_an_answer(self):
        answers = [self.model.generate(PROMPT, temperature=1, seed=seed, max_tokens=16).text
                   for seed in (1, 1, 2)]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], answers[2])

    def test_a_draft_model_changes_no_answer(self):
        with vesper.LanguageModel("smollm2-135m", draft="smollm2-135m", local_files_only=True) as model:
            for options in (GREEDY, {"temperature": 1, "seed": 7, "max_tokens": 24}):
                answer = model.generate(PROMPT, **options)
                self.assertEqual(answer.tokens, self.model.generate(PROMPT, **options).tokens)
        with self.assertRaisesRegex(vesper.UsageError, "draft"):
            vesper.LanguageModel("smollm2-135m", draft="smollm2-135m", speculate="ngram",
                                 local_files_only=True)

    def test_a_stream_has_the_text_of_the_answer(self):
        stream = self.model.stream(PROMPT, **GREEDY)
        pieces = list(stream)
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), self.model.generate(PROMPT, **GREEDY).text)
        self.assertEqual(stream.answer.text, "".join(pieces))

    def test_a_suspended_stream_gives_way_to_another_call(self):
        stream = self.model.stream(PROMPT, temperature=0, max_tokens=60)
        first = next(stream)
        expected = self.model.generate(PROMPT, temperature=0, max_tokens=60).text
        self.assertEqual(first + "".join(stream), expected)

    def test_an_abandoned_stream_ends(self):
        stream = self.model.stream(PROMPT, temperature=0, max_tokens=3000, allow_loops=True)
        next(stream)
        stream.close()
        self.assertEqual(stream.answer.end, "cancelled")

    def test_many_prompts_have_the_answers_of_each(self):
        prompts = [PROMPT, "1, 2, 3,", [{"role": "user", "content": "Hi"}]]
        answers = self.model.generate_many(prompts, **GREEDY)
        self.assertEqual([answer.text for answer in answers],
                         [self.model.generate(prompt, **GREEDY).text for prompt in prompts])

    def test_a_chat_remembers_and_can_be_streamed(self):
        with vesper.Chat(self.model, system="Be brief.", **GREEDY) as chat:
            answer = chat.say("Name a river.")
            text = "".join(chat.stream("Name another."))
            roles = [message["role"] for message in chat.messages]
            self.assertEqual(roles, ["system", "user", "assistant", "user", "assistant"])
            self.assertEqual(chat.messages[2]["content"], answer.text.strip())
            self.assertEqual(chat.messages[4]["content"].strip(), text.strip())
            chat.messages = chat.messages[:1]
            self.assertEqual(len(chat.messages), 1)

    def test_closing_a_model_closes_its_chats(self):
        model = vesper.LanguageModel("smollm2-135m", context=256, local_files_only=True)
        chat = vesper.Chat(model)
        model.close()
        with self.assertRaisesRegex(vesper.UsageError, "closed"):
            chat.say("Hi")

    def test_bad_arguments_are_refused_by_name(self):
        for name, value in {"max_tokens": -1, "temperature": -2, "top_p": 3, "stop": "a\0"}.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, name.removesuffix("s")):
                self.model.generate(PROMPT, **{name: value})
        for prompt in ([], ["text"], [{"content": "Hi"}], "a\0b"):
            with self.subTest(prompt), self.assertRaises(ValueError):
                self.model.generate(prompt)
        with self.assertRaisesRegex(TypeError, "warmth"):
            self.model.generate(PROMPT, warmth=1)
        with self.assertRaises(vesper.InputError):
            self.model.tokenizer.decode([10**6])

    def test_logits_are_one_row_a_token(self):
        tokens = self.model.tokenizer.encode(PROMPT)
        logits = self.model.logits(tokens)
        self.assertEqual(logits.shape, (len(tokens), self.model.n_vocab))
        self.assertEqual(int(logits[-1].argmax()),
                         self.model.generate(PROMPT, temperature=0, max_tokens=1, reuse=False).tokens[0])

    def test_a_prompt_is_saved_and_restored(self):
        with tempfile.TemporaryDirectory() as folder:
            expected = self.model.generate(PROMPT, **GREEDY)
            self.model.save_prompt(f"{folder}/prompt")
            with vesper.LanguageModel("smollm2-135m", batch_size=2, local_files_only=True) as other:
                other.restore_prompt(f"{folder}/prompt")
                answer = other.generate(PROMPT, **GREEDY)
            self.assertEqual(answer.text, expected.text)
            self.assertGreater(answer.n_reused, 0)

    def test_tokens_become_the_text_again(self):
        for text in ("", "Grüße, 世界 🙂", "a  b\n\tc", b"bytes"):
            tokens = self.model.tokenizer.encode(text)
            self.assertEqual(self.model.tokenizer.decode(tokens), text.decode() if text == b"bytes" else text)

    def test_threads_that_share_a_model_wait_for_each_other(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            texts = set(pool.map(lambda _: self.model.generate(PROMPT, **GREEDY).text, range(6)))
        self.assertEqual(texts, {self.model.generate(PROMPT, **GREEDY).text})

    def test_ctrl_c_ends_an_answer_and_the_model_remains_usable(self):
        endless = "max_tokens=4000, temperature=0, allow_loops=True"
        long_prompt = 'for i in range(10000): model.generate(f"{i}" + " one two" * 1900, max_tokens=1)'
        for work in (f'model.generate("Once", {endless})', f'list(model.stream("Once", {endless}))', long_prompt):
            with self.subTest(work):
                process = subprocess.Popen([sys.executable, "-c", INTERRUPTED.format(work=work)],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(process.stdout.readline(), "begin\n")
                time.sleep(1)
                process.send_signal(signal.SIGINT)
                self.assertEqual((*process.communicate(timeout=60), process.returncode), (" 4\n", "", 130))


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.embedder = vesper.Embedder("all-minilm-l6-v2", local_files_only=True)

    @classmethod
    def tearDownClass(cls):
        cls.embedder.close()

    def test_vectors_are_those_of_the_program_to_the_byte(self):
        texts = ["A cat sleeps.", "Stocks fell on Monday.", "", "Grüße aus Wien"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "vectors.npy")
            program(EMBED, "-m", "all-minilm-l6-v2", "-f", "npy", "-o", path, *texts)
            self.assertEqual(self.embedder.encode(texts).tobytes(), numpy.load(path).tobytes())

    def test_one_text_is_a_vector_and_no_texts_are_no_rows(self):
        self.assertEqual(self.embedder.encode("A cat").shape, (384,))
        self.assertEqual(self.embedder.encode([]).shape, (0, 384))
        self.assertEqual(self.embedder.encode("A cat").dtype, numpy.float32)

    def test_vectors_are_normalized_on_request_and_cut(self):
        with vesper.Embedder("all-minilm-l6-v2", truncate_dim=64, local_files_only=True) as embedder:
            vector = embedder.encode("A cat", normalize_embeddings=True)
            self.assertEqual(vector.shape, (64,))
            self.assertAlmostEqual(float(numpy.linalg.norm(vector)), 1, places=5)

    def test_a_prompt_is_put_before_a_text(self):
        self.assertEqual(self.embedder.encode("cat", prompt="a ").tobytes(),
                         self.embedder.encode("a cat").tobytes())
        self.assertNotEqual(self.embedder.encode("cat").tobytes(), self.embedder.encode("a cat").tobytes())

    def test_bad_arguments_are_refused_by_name(self):
        for name, value in {"convert_to_numpy": False, "show_progress_bar": True}.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, name):
                self.embedder.encode("a", **{name: value})
        for sentences in ([3], [None], ["a\0b"], ["\ud800"]):
            with self.subTest(sentences), self.assertRaises((TypeError, ValueError)):
                self.embedder.encode(sentences)

    def test_similarity_is_the_cosine(self):
        found = vesper.similarity([[3, 4], [0, 0]], [[4, 3], [-3, -4]])
        numpy.testing.assert_allclose(found, [[0.96, -1], [0, 0]], atol=1e-6)


class Scores(unittest.TestCase):
    """Rerankers, with the tiny ones of tests/reference/make_rerankers.py and their scores."""

    def test_scores_are_those_of_transformers(self):
        for kind in ("bert", "xlm-roberta", "modernbert", "qwen3"):
            folder = RERANKERS / kind
            reference = json.loads((folder / "reference.json").read_text())
            with self.subTest(kind), vesper.CrossEncoder(folder, compute_type="float32", device="cpu") as model:
                pairs = [(reference["query"], document) for document in reference["documents"]]
                numpy.testing.assert_allclose(model.predict(pairs), reference["scores"], atol=2e-5)
                ranked = model.rank(reference["query"], reference["documents"], top_k=2, return_documents=True)
                best = sorted(range(len(pairs)), key=lambda i: -reference["scores"][i])[:2]
                self.assertEqual([line["corpus_id"] for line in ranked], best)
                self.assertEqual([line["text"] for line in ranked], [reference["documents"][i] for i in best])
                self.assertEqual(model.predict([]).shape, (0,))

    def test_bad_arguments_are_refused_by_name(self):
        with vesper.CrossEncoder(RERANKERS / "bert", max_length=24) as model:
            self.assertEqual(model.max_length, 24)
            for sentences in (["ab"], [("a", "b", "c")]):
                with self.subTest(sentences), self.assertRaisesRegex(ValueError, "sentences"):
                    model.predict(sentences)
        with self.assertRaisesRegex(vesper.ModelError, "expected a reranker"):
            vesper.CrossEncoder("all-minilm-l6-v2", local_files_only=True)


if __name__ == "__main__":
    if "VESPER_TEST_WITHOUT_MODELS" in os.environ:
        sys.exit("text_test.py: Skipped\nVESPER_TEST_WITHOUT_MODELS is set")
    GENERATE, EMBED, *rest = sys.argv[1:]
    unittest.main(argv=sys.argv[:1] + rest)
