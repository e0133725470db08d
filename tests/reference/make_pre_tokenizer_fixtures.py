#!/usr/bin/env python3
"""Writes FOLDER/pre_tokenizers.json: a small byte-level BPE, and Hugging Face's ids with each
pre-tokenizer that a GGUF file can name, for tests/llm/tokenizer/tokenizer_corpus_test.cc.

    make_pre_tokenizer_fixtures.py tests/llm/tokenizer/vocabularies

For each pre-tokenizer: its names in tokenizer.ggml.pre, and a hash (FNV-1a, 32 bits) of the ids of
every 10 lines of FOLDER/corpus.json. The names and patterns are those of llama.cpp's
src/llama-vocab.cpp (as in llama-cpp-python 0.3.36); where its pattern is adapted to its regular
expressions, the pattern of the published tokenizer.json in its comments.

Needs: pip install tokenizers==0.23.3
"""
import json
import pathlib
import sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from make_tokenizer_fixtures import BLOOM, DEEPSEEK, LLAMA3, QWEN2, TEKKEN, fnv

N_TOKENS = 800
LINES_OF_A_HASH = 10
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HAN_AND_HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-"
    "\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-"
    "\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"
    "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-"
    "\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+")

# Names, patterns, and whether a piece that is a token is that token without merges.
PRE_TOKENIZERS = [
    (["", "default"], [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], False),
    (["gpt-2", "mpt", "olmo", "jais", "phi-2", "roberta-bpe", "jina-v2-code", "modern-bert"], [GPT2], False),
    (["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "glm4"], [LLAMA3],
     True),
    (["dbrx", "smaug-bpe", "chatglm-bpe"], [LLAMA3], False),
    (["qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "megrez", "hunyuan", "solar-open"], [QWEN2], False),
    (["qwen35"], [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    (["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"], [r"\p{N}", GPT2], False),
    (["tekken"], [TEKKEN], True),
    (["gpt-4o", "llama4", "kanana2"],
     [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}|"
      r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    (["falcon"], [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], False),
    (["bloom", "poro-chat", "gpt3-finnish"], [BLOOM], False),
    (["viking"], [BLOOM, r"\p{N}"], False),
    (["deepseek-coder"], ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_AND_HANGUL, r"\p{N}"], False),
    (["deepseek-llm"],
     ["[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
      r"\s+$", HAN_AND_HANGUL, r"\p{N}+"], False),
    (["deepseek-v3", "hunyuan-dense", "joyai-llm"],
     [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK], False),
    (["seed-coder"], [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|"
                      r"\s+(?!\S)|\s+"], False),
    (["bailingmoe", "bailingmoe2", "llada-moe"],
     [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"], False),
]


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = json.loads((folder / "corpus.json").read_text())
    # Without a pre-tokenizer, merges cross all its boundaries. "camelCase" cannot be merged.
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = BYTES
    trained.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=N_TOKENS - 1, initial_alphabet=BYTES.alphabet(), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get) + ["camelCase"]
    merges = [tuple(pair) for pair in model["merges"]]
    for pair in [(".", "Ċ"), (",", "Ċ"), (")", "Ċ"), ("!", "Ċ"), ("Ċ", "Ċ")]:  # of punctuation and lines
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
            merges.append(pair)
    assert len(tokens) == len(set(tokens))
    vocabulary = {token: id for id, token in enumerate(tokens)}
    result = []
    for names, patterns, ignores_merges in PRE_TOKENIZERS:
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=ignores_merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns] + [BYTES])
        hashes = []
        for first in range(0, len(lines), LINES_OF_A_HASH):
            some = lines[first:first + LINES_OF_A_HASH]
            hashes.append(fnv([id for line in some for id in tokenizer.encode(line).ids]))
        result.append({"names": names, "expected": hashes})
    parts = {"tokens": tokens, "merges": [" ".join(pair) for pair in merges], "pre_tokenizers": result}
    (folder / "pre_tokenizers.json").write_text(json.dumps(parts, separators=(",", ":")) + "\n")


main()
