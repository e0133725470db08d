#!/usr/bin/env python3
"""Makes tests/embedder/unigram/tokenizer.json, a small SentencePiece unigram model in the form of
XLM-R's, and prints the ids of Hugging Face's tokenizers for some texts (for embedder_test.cc).

Needs: pip install sentencepiece protobuf tokenizers
"""
import os
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

TEXTS = ["the next budget", "Budgets\u3000 for ﬁve years!", "  two  spaces ", "x東京y", "①", "e\u0301", "",
         "the</s>year"]
CORPUS = """the budget for the next year was five times the budget of the last year
she said that the plans for next year are the best plans they have made
budgets and plans and years and times and the cats that sat on the mat
""" * 50
# Replacements in the format of SentencePiece's rule files: code points, tab, code points.
RULES = {"ﬁ": "fi", "①": "1", "\u3000": " ", "e\u0301": "é", "B": "b"}


def main():
    target = pathlib.Path(__file__).parents[1] / "embedder/unigram/tokenizer.json"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("corpus").write_text(CORPUS)
        points = lambda text: " ".join(f"{ord(c):X}" for c in text)
        pathlib.Path("rules").write_text(
            "".join(f"{points(a)}\t{points(b)}\n" for a, b in RULES.items()))
        sentencepiece.SentencePieceTrainer.train(
            input="corpus", model_prefix="m", vocab_size=45, model_type="unigram",
            normalization_rule_tsv="rules", minloglevel=2)
        model = sentencepiece_model_pb2.ModelProto.FromString(pathlib.Path("m.model").read_bytes())
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(piece.piece, piece.score) for piece in model.pieces[3:]]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
         normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    target.parent.mkdir(exist_ok=True)
    tokenizer.save(str(target), pretty=False)
    print(f"{target.stat().st_size} bytes")
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        print(ascii(text), encoding.ids, encoding.tokens)


if __name__ == "__main__":
    main()
