#!/usr/bin/env python3
"""Trains small tokenizers of every kind of tokenizer.json, and writes the results of Hugging Face's
tokenizers on a corpus, for tests/llm/tokenizer/tokenizer_corpus_test.cc:

    FOLDER/corpus.json            the lines
    FOLDER/NAME/tokenizer.json    a tokenizer with the steps of a family and a vocabulary trained here
    FOLDER/NAME/tokenizer.model   or a SentencePiece model; the reference is sentencepiece 0.2.3
    FOLDER/NAME/expected.json     for each line a hash (FNV-1a, 32 bits) of its ids, special tokens included

The fixtures in tests/llm/tokenizers are those of `make_tokenizer_fixtures.py tests/llm/tokenizers 300 300`;
a larger comparison is `make_tokenizer_fixtures.py FOLDER 10000 3000`, then
VESPER_TOKENIZER_CORPUS=FOLDER build/tokenizer_corpus_test.

The lines come from Unicode data (Python's, version 14) and Debian's files.

Needs: pip install tokenizers==0.23.3 sentencepiece protobuf
"""
import glob
import json
import os
import pathlib
import random
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# Blocks of 24 scripts, limited to letters and marks of Unicode 14.
SCRIPTS = {
    "Latin": (0x61, 0x24F), "Greek": (0x370, 0x3FF), "Cyrillic": (0x400, 0x52F), "Armenian": (0x530, 0x58F),
    "Hebrew": (0x590, 0x5FF), "Arabic": (0x600, 0x6FF), "Syriac": (0x700, 0x74F), "Devanagari": (0x900, 0x97F),
    "Bengali": (0x980, 0x9FF), "Gurmukhi": (0xA00, 0xA7F), "Gujarati": (0xA80, 0xAFF), "Tamil": (0xB80, 0xBFF),
    "Telugu": (0xC00, 0xC7F), "Kannada": (0xC80, 0xCFF), "Malayalam": (0xD00, 0xD7F), "Sinhala": (0xD80, 0xDFF),
    "Thai": (0xE00, 0xE7F), "Tibetan": (0xF00, 0xFBC), "Georgian": (0x10A0, 0x10FF), "Ethiopic": (0x1200, 0x137F),
    "Khmer": (0x1780, 0x17FF), "Hiragana": (0x3041, 0x309F), "Katakana": (0x30A0, 0x30FF), "Han": (0x4E00, 0x9FFF),
    "Hangul": (0xAC00, 0xD7A3), "Deseret": (0x10400, 0x1044F),
}
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u1680", "\u180e", "\u200b",
          "\ufeff", "\u2028", "\x0b", "\x0c", "\x85", " \n", "\n ", "\t\t"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🇫🇷", "👍🏽", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "🤷🏻‍♀️", "☺", "🧑‍🚀"]
ODD = ["I'm", "don't", "WE'LL", "they've", "it's", "'s", "don’t", "İstanbul", "straße", "ǅ", "ﬁne", "①②", "½", "Ⅷ",
       "e\u0301", "a\u0300\u0323", "\u0301x", "한글", "x²", "H₂O", "३४५", "٣٤", "１２３", "1234567", "3.14159", "1,000,000",
       "v2.0.1", "$5.99", "…", "--", "!!!", "?!", "«»", "“x”", "(a)", "[b]", "{c}", "a_b", "camelCase", "HTTPServer",
       "foo::bar()", "x->y", "/* c */", "https://example.com/a?b=c&d=%20#x", "a@b.org", "<s>", "</s>", "<|end|>", "[MASK]",
       "<mask>", "▁x", "▁", "##a", "word", "words", "wordy", "\u200d", "\u00ad", "\x07", "A\u030a", "ﷺ", "㍿", "Ａ", "ｶﾞ"]


# Replacements of a unigram model's normalizer, in fixtures.
RULES = {"ﬁ": "fi", "①": "1", "②": "2", "\u3000": " ", "\u00a0": " ", "\u2003": " ", "e\u0301": "é", "½": "1/2", "Ⅷ": "VIII",
         "Ａ": "A", "\t": " ", "\n": " ", "\r": " ", "\u200b": " ", "\u00ad": ""}


def corpus(n_lines):
    rng = random.Random(14)
    letters = {name: [chr(c) for c in range(a, b + 1) if unicodedata.category(chr(c))[0] in "LM"]
               for name, (a, b) in SCRIPTS.items()}
    natural = []
    for pattern in ("/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Artistic", "/usr/include/stdio.h",
                    "/usr/lib/python3*/textwrap.py", "/usr/share/perl/5*/Text/Wrap.pm", "/usr/share/doc/*/copyright"):
        for path in sorted(glob.glob(pattern))[:40]:
            natural += [line for line in pathlib.Path(path).read_text("utf-8", "replace").splitlines() if line.strip()]

    def word():
        kind = rng.random()
        if kind < 0.5:
            script = letters[rng.choice(list(SCRIPTS))]
            return "".join(rng.choice(script) for _ in range(rng.randint(1, 9)))
        if kind < 0.6:
            return rng.choice(EMOJI)
        if kind < 0.85:
            return rng.choice(ODD)
        return "".join(rng.choice("abcdeABC019 .,;'\"-_") for _ in range(rng.randint(1, 8)))

    lines = ["", " ", "  ", "\n", "a", " a", "a ", "  a  b  "]
    while len(lines) < n_lines:
        if rng.random() < 0.3:
            start = rng.randrange(len(natural))
            lines.append("\n".join(natural[start:start + rng.randint(1, 3)]))
        else:
            text = ""
            for _ in range(rng.randint(1, 12)):
                text += word() + (" " if rng.random() < 0.5 else rng.choice(SPACES) if rng.random() < 0.6 else "")
            lines.append(text)
    return lines


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}"
          r"\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

Split, Sequence, ByteLevel = pre_tokenizers.Split, pre_tokenizers.Sequence, pre_tokenizers.ByteLevel
byte_level = ByteLevel(add_prefix_space=False, use_regex=False)


def splits(*patterns):
    return Sequence([Split(Regex(pattern), "isolated") for pattern in patterns] + [byte_level])


def bpe(lines, size, pre_tokenizer, normalizer=None, special=("<s>", "</s>"), decoder=None, alphabet=True, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    named = list(special) + ([model["unk_token"]] if "unk_token" in model else [])
    options = {"continuing_subword_prefix": model["continuing_subword_prefix"]} if "continuing_subword_prefix" in model else {}
    if "end_of_word_suffix" in model:
        options["end_of_word_suffix"] = model["end_of_word_suffix"]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, special_tokens=named + ([f"<0x{i:02X}>" for i in range(256)] if model.get("byte_fallback") else []),
        initial_alphabet=ByteLevel.alphabet() if alphabet else [], limit_alphabet=max(256, size // 3), show_progress=False,
        **options))
    if model.get("byte_fallback"):  # the byte tokens are the model's, and not added
        data = json.loads(tokenizer.to_str())
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoder or decoders.ByteLevel()
    return tokenizer


def unigram(lines, size, model_type="unigram", rule="nmt_nfkc", byte_fallback=False, t5=False):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        # Its vocabulary has every character, so it uses few scripts.
        plain = [" ".join(line.split()) for line in lines if line.strip() and max(line) < "\u0400"]
        (path / "corpus").write_text("\n".join(plain))
        # The rules of nmt_nfkc are too large for a fixture.
        points = lambda text: " ".join(f"{ord(c):X}" for c in text)
        (path / "rules").write_text("".join(f"{points(a)}\t{points(b)}\n" for a, b in RULES.items()))
        how = {"normalization_rule_name": rule} if size > 1000 or rule == "identity" else {
            "normalization_rule_tsv": str(path / "rules")}
        sentencepiece.SentencePieceTrainer.train(
            input=str(path / "corpus"), model_prefix=str(path / "m"), vocab_size=size, model_type=model_type,
            byte_fallback=byte_fallback, hard_vocab_limit=False, minloglevel=2, num_threads=1, **how)
        model = sentencepiece_model_pb2.ModelProto.FromString((path / "m.model").read_bytes())
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(piece.piece, piece.score) for piece in model.pieces[3:]]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=byte_fallback))
    charsmap = model.normalizer_spec.precompiled_charsmap
    steps = [normalizers.Precompiled(charsmap)] if charsmap else []
    tokenizer.normalizer = normalizers.Sequence(steps + ([normalizers.Strip(left=False, right=True)] if t5 else []) +
                                                [normalizers.Replace(Regex(" {2,}"), "▁" if t5 else " ")])
    metaspace = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = metaspace if t5 else Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>" if t5 else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    return tokenizer


def word_piece(lines, size, lowercase, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(special), limit_alphabet=size // 2, show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


SPM_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                 decoders.Strip(" ", 1, 0)])


def tokenizers_of(lines, size):
    template = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    yield "gpt2", bpe(lines, size, ByteLevel(add_prefix_space=False))
    roberta = bpe(lines, size, ByteLevel(add_prefix_space=True))
    roberta.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    yield "roberta", roberta
    llama3 = bpe(lines, size, splits(LLAMA3), ignore_merges=True)
    llama3.post_processor = processors.Sequence([ByteLevel(trim_offsets=False) and processors.ByteLevel(trim_offsets=False), template])
    yield "llama3", llama3
    qwen2 = bpe(lines, size, splits(QWEN2), normalizers.NFC())
    qwen2.add_special_tokens(["<|end|>"])
    yield "qwen2", qwen2
    yield "smollm", bpe(lines, size, Sequence([pre_tokenizers.Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]))
    yield "tekken", bpe(lines, size, Sequence([Split(Regex(TEKKEN), "removed", invert=True), byte_level]))
    yield "deepseek3", bpe(lines, size, splits(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK))
    yield "deepseek_coder", bpe(lines, size, Sequence([
        Split(Regex("[\r\n]"), "isolated"), Split(Regex(r"\s?\p{L}+"), "isolated"), Split(Regex(r"\s?\p{P}+"), "isolated"),
        Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"), pre_tokenizers.Digits(individual_digits=True), byte_level]))
    yield "bloom", bpe(lines, size, splits(BLOOM))
    spm = dict(byte_fallback=True, fuse_unk=True, unk_token="<unk>", alphabet=False, decoder=SPM_DECODER)
    llama2 = bpe(lines, size, None or pre_tokenizers.Metaspace(prepend_scheme="never"), normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), **spm)
    llama2.pre_tokenizer = None
    llama2.post_processor = template
    yield "llama2", llama2
    metaspace = bpe(lines, size, pre_tokenizers.Metaspace(prepend_scheme="first"), **spm)
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    yield "mistral", metaspace
    yield "gemma", bpe(lines, size, Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁"),
                       **{**spm, "decoder": decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])})
    yield "clip", bpe(lines, size, Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                      normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
                      unk_token="<unk>", end_of_word_suffix="</w>", alphabet=False, decoder=decoders.BPEDecoder("</w>"))
    yield "continuing", bpe(lines, size, Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous")]),
                            normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()]), unk_token="<unk>", fuse_unk=False,
                            continuing_subword_prefix="##", alphabet=False, decoder=decoders.WordPiece())
    odd = bpe(lines, size, Sequence([
        pre_tokenizers.CharDelimiterSplit("-"), Split(Regex(r"\w+"), "merged_with_next"), pre_tokenizers.Digits(),
        Split(".", "contiguous"), pre_tokenizers.Punctuation("merged_with_previous")]),
        normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Nmt(), normalizers.Replace("a", "b")]),
        unk_token="<unk>", fuse_unk=True, alphabet=False)
    odd.add_tokens([AddedToken("word", single_word=True), AddedToken("①", normalized=True),
                    AddedToken("don't", lstrip=True, rstrip=True, normalized=False), AddedToken("camel", normalized=True)])
    yield "odd", odd
    yield "bert", word_piece(lines, size, True)
    yield "bert_cased", word_piece(lines, size, False)
    # RoBERTa's special tokens, except that of unknown words.
    mpnet = word_piece(lines, size, True, ("<s>", "<pad>", "</s>", "[UNK]"))
    mpnet.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    mpnet.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    yield "mpnet", mpnet
    yield "xlmr", unigram(lines, size)
    yield "t5", unigram(lines, size, t5=True)
    yield "unigram_bytes", unigram(lines, size + 256, rule="identity", byte_fallback=True, t5=True)
    words = Tokenizer(models.WordLevel(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.train_from_iterator(lines, trainers.WordLevelTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False))
    yield "words", words


def fnv(ids):
    value = 0x811C9DC5
    for token in ids:
        for byte in token.to_bytes(4, "little"):
            value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


SENTENCE_PIECE = {
    "spm_llama": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                      remove_extra_whitespaces=False, split_digits=True),
    "spm_gemma": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                      remove_extra_whitespaces=False, user_defined_symbols=["▁▁", "▁▁▁", "\n", "<html>"]),
    "spm_t5": dict(model_type="unigram"),
}


def sentence_pieces(folder, lines, size):
    import sentencepiece
    plain = [" ".join(line.split()) for line in lines if line.strip() and max(line) < "\u0400"]
    for name, how in SENTENCE_PIECE.items():
        (folder / name).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            (pathlib.Path(scratch) / "corpus").write_text("\n".join(plain))
            (pathlib.Path(scratch) / "rules").write_text("".join(
                " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in RULES.items()))
            if "normalization_rule_name" not in how and size <= 1000:
                how = {**how, "normalization_rule_tsv": scratch + "/rules"}
            sentencepiece.SentencePieceTrainer.train(input=scratch + "/corpus", model_prefix=scratch + "/m", num_threads=1,
                                                     vocab_size=size + 300, hard_vocab_limit=False, minloglevel=2, **how)
            (folder / name / "tokenizer.model").write_bytes((pathlib.Path(scratch) / "m.model").read_bytes())
        (folder / name / "tokenizer_config.json").write_text('{"add_bos_token": false}')
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name / "tokenizer.model"))
        # SentencePiece treats the spellings of special tokens as text, so such lines are skipped (0).
        expected = [0 if "<s>" in line or "</s>" in line or "\0" in line else fnv(model.encode(line)) for line in lines]
        (folder / name / "expected.json").write_text(json.dumps(expected, separators=(",", ":")))
        print(name, model.get_piece_size(), (folder / name / "tokenizer.model").stat().st_size)


def main():
    folder, n_lines, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    lines = corpus(n_lines)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.json").write_text(json.dumps(lines, ensure_ascii=True))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name, tokenizer in tokenizers_of(lines, size):
        (folder / name).mkdir(exist_ok=True)
        tokenizer.save(str(folder / name / "tokenizer.json"), pretty=False)
        # From the file, like a program.
        tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        ids = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
        (folder / name / "expected.json").write_text(json.dumps([fnv(of_line) for of_line in ids], separators=(",", ":")))
        print(name, tokenizer.get_vocab_size(), (folder / name / "tokenizer.json").stat().st_size)
    sentence_pieces(folder, lines, size)


if __name__ == "__main__":
    main()
