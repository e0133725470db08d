#!/usr/bin/env python3
"""Makes the tiny rerankers of tests/embedder/rerankers/ and their reference scores from Hugging Face's
transformers: for each kind a random model in f32 with its config.json and tokenizer.json, and
reference.json with a query, documents, the token ids and the score of each pair, and the scores of
pairs cut to 24 tokens.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors tokenizers
    venv/bin/python tests/reference/make_rerankers.py tests/embedder/rerankers [KIND...]

The fixtures in the repository were made with torch 2.15.0 and transformers 5.23.0, on a CPU.
"""
import json
import pathlib
import sys

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

CUT = 24
QUERY = "what plan for the money"
DOCUMENTS = ["the cat sat on the mat", "a plan for next year's money", "money!",
             "the budget of the year: a plan of what the money is for, and what the cat sat on, "
             "and the plan for the money of the next year, and the mat"]
WORDS = ("the cat sat on mat a plan for next year money budget of what is and").split()
COMMON = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
              max_position_embeddings=160)
# Of the model card of Qwen3-Reranker.
SYSTEM = ('Judge whether the Document meets the requirements based on the Query and the Instruct provided. '
          'Note that the answer can only be "yes" or "no".')
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


def word_pieces():
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters,
            *("##" + letter for letter in letters), *"!?,.:'"]


def word_piece_tokenizer(second_type):
    vocabulary = {word: i for i, word in enumerate(word_pieces())}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair=f"[CLS]:0 $A:0 [SEP]:0 $B:{second_type} [SEP]:{second_type}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def unigram_tokenizer():
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [("▁" + word, -2.0 - i / 16) for i, word in enumerate(WORDS)]
    pieces += [(c, -5.0 - i / 16) for i, c in enumerate("▁abcdefghijklmnopqrstuvwxyz!?,.:'")]
    tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True,
                                                            add_prefix_space=False)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return tokenizer


def byte_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("y", "e"), ("ye", "s"), ("n", "o"), ("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e")]
    vocabulary = {word: i for i, word in enumerate(letters + ["".join(merge) for merge in merges])}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


def bert(t):
    return t.BertForSequenceClassification(t.BertConfig(
        **COMMON, vocab_size=len(word_pieces()), type_vocab_size=2, num_labels=1,
        sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}))


def xlm_roberta(t):
    return t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(
        **COMMON, vocab_size=53, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        num_labels=1))


def modernbert(t, pooling):
    return t.ModernBertForSequenceClassification(t.ModernBertConfig(
        **COMMON, vocab_size=len(word_pieces()), local_attention=8, pad_token_id=0, cls_token_id=2,
        sep_token_id=3, bos_token_id=2, eos_token_id=3, classifier_pooling=pooling, num_labels=1))


def qwen3_config(t, **more):
    return t.Qwen3Config(**{**COMMON, "max_position_embeddings": 1024}, vocab_size=268, num_key_value_heads=1,
                         head_dim=16, pad_token_id=262, bos_token_id=262, eos_token_id=264,
                         rope_parameters=dict(rope_type="default", rope_theta=1000000.0), **more)


KINDS = {
    "bert": (bert, lambda: word_piece_tokenizer(1)),
    "xlm-roberta": (xlm_roberta, unigram_tokenizer),
    "modernbert": (lambda t: modernbert(t, "mean"), lambda: word_piece_tokenizer(0)),
    "modernbert-cls": (lambda t: modernbert(t, "cls"), lambda: word_piece_tokenizer(0)),
    "qwen3": (lambda t: t.Qwen3ForCausalLM(qwen3_config(t, tie_word_embeddings=True)), byte_tokenizer),
    "qwen3-untied": (lambda t: t.Qwen3ForCausalLM(qwen3_config(t)), byte_tokenizer),
}


def judge_ids(tokenizer, query, document, limit):
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    before = ids(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")
    after = ids("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
    middle = ids(f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}")
    return before + middle[:limit - len(before) - len(after)] + after


def score(name, model, tokenizer, query, document, limit):
    if name.startswith("qwen3"):
        ids = judge_ids(tokenizer, query, document, limit)
        logits = model(torch.tensor([ids])).logits[0, -1]
        pair = logits[[tokenizer.token_to_id("no"), tokenizer.token_to_id("yes")]]
        return ids, torch.log_softmax(pair, 0)[1].exp().item()
    tokenizer.enable_truncation(limit, strategy="longest_first")
    found = tokenizer.encode(query, document)
    tokenizer.no_truncation()
    inputs = dict(input_ids=torch.tensor([found.ids]))
    if name == "bert":
        inputs["token_type_ids"] = torch.tensor([found.type_ids])
    logit = model(**inputs).logits[0, 0]
    # As sentence-transformers' CrossEncoder: a sigmoid unless the configuration names another.
    return found.ids, (logit if name == "bert" else logit.sigmoid()).item()


def make(name, folder):
    torch.manual_seed(sum(map(ord, name)))
    build, build_tokenizer = KINDS[name]
    model, tokenizer = build(transformers).eval(), build_tokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            # Norm weights other than one, so that their position matters.
            spread, mean = (0.3, 0.7) if "norm" in key.lower() else (0.25, 0.0)
            weight.copy_(torch.randn_like(weight) * spread + mean)
        limit = 1024 if name.startswith("qwen3") else 128
        cut = 340 if name.startswith("qwen3") else CUT
        pairs = [score(name, model, tokenizer, QUERY, document, limit) for document in DOCUMENTS]
        cuts = [score(name, model, tokenizer, QUERY, document, cut) for document in DOCUMENTS]
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    reference = dict(query=QUERY, documents=DOCUMENTS, ids=[ids for ids, _ in pairs],
                     scores=[value for _, value in pairs], cut=cut, cut_ids=[ids for ids, _ in cuts],
                     cut_scores=[value for _, value in cuts])
    (folder / "reference.json").write_text(json.dumps(reference, indent=1) + "\n")
    print(name, [round(value, 4) for _, value in pairs + cuts], [len(ids) for ids, _ in pairs])


def main():
    target = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or KINDS:
        make(name, target / name)


if __name__ == "__main__":
    main()
