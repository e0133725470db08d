#include "cli/generate/generate_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/generate/answer_writer.h"
#include "cli/generate/thinking_text.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"

namespace vesper {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Steps that are submitted at once: as many as take about so long, so that text comes in a steady
// stream and the device is not asked too often.
constexpr double kChainSeconds = 0.03;
constexpr uint32_t kMostChainSteps = 16;

// Splits a text into pieces of at most `most` tokens, at ends of lines, sentences or words.
std::vector<std::string> parts_of(const TextModel& model, const std::string& text, uint32_t most) {
  const auto n_tokens = [&](std::string_view part) {
    return model.require_tokenizer().encode(part, false, false).size();
  };
  std::vector<std::string> parts;
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t n = rest.size();
    // The size that fits, by proportion; a few rounds as tokens differ in length.
    for (size_t tokens = n_tokens(rest); tokens > most && n > 1;) {
      n = std::max<size_t>(1, std::min(n - 1, n * most / tokens));
      tokens = n_tokens(rest.substr(0, n));
    }
    if (n < rest.size()) {
      for (const std::string_view mark : {"\n", ". ", " "}) {
        const size_t at = rest.substr(0, n).rfind(mark);
        if (at == std::string_view::npos || at < n / 2) continue;
        n = at + mark.size();
        break;
      }
      while (n > 1 && (static_cast<unsigned char>(rest[n]) & 0xc0) == 0x80) --n;
    }
    parts.emplace_back(rest.substr(0, n));
    rest.remove_prefix(n);
  }
  return parts;
}

}  // namespace

std::vector<int32_t> prompt_ids(const TextModel& model, const GenerateArguments& arguments,
                                const std::string& instruction, const std::string& text) {
  const std::string both = instruction.empty() ? text
                           : text.empty()      ? instruction
                                               : instruction + "\n\n" + text;
  if (arguments.no_chat || (!model.has_chat_template() && !arguments.system)) {
    return model.text_ids(both);
  }
  std::vector<ChatMessage> messages;
  if (arguments.system) messages.push_back({"system", *arguments.system});
  messages.push_back({"user", both});
  return model.chat_ids(messages);
}

Answer run_answer(TextModel& model, const GenerateArguments& arguments,
                  std::span<const int32_t> prompt, const WriteText& write,
                  const std::function<bool()>& is_interrupted) {
  Generator& generator = model.generator();
  AnswerWriter writer(model.tokenizer(), arguments.stops);
  Answer answer;
  const auto start = SteadyClock::now();
  const uint32_t wanted = arguments.max_new.value_or(UINT32_MAX);
  Sampling sampling = arguments.sampling;
  std::vector<int32_t> context(prompt.begin(), prompt.end());
  std::vector<float> logits(arguments.n_logprobs.value_or(0) > 0 ? generator.n_vocab() : 0);
  generator.start(0, context, wanted, sampling);
  answer.times.n_reused = generator.n_reused(0);
  answer.times.n_prompt = prompt.size();
  size_t n_taken = 0;   // of what is chosen since the latest start
  size_t n_listed = 0;  // of --logprobs
  const auto list_tokens = [&] {
    std::string lines;
    for (; n_listed < writer.n_in_text(); ++n_listed) {
      lines += token_json(model.tokenizer(), answer.logprobs[n_listed]).dump() + "\n";
    }
    return lines;
  };
  uint32_t chain = 1;
  bool runs = true;
  auto answer_start = start;
  bool interrupted = false;
  while (runs && !writer.is_stopped() && !interrupted) {
    const auto chain_start = SteadyClock::now();
    runs = generator.advance(logits.empty() ? chain : 1);
    const double chain_s = seconds_since(chain_start);
    const auto chosen = generator.chosen(0);
    const auto logprobs = generator.logprobs(0);
    if (answer.ids.empty()) {
      answer.times.prompt_s = seconds_since(start);
      answer_start = SteadyClock::now();
    } else {
      if (chain_s < kChainSeconds / 2) chain = std::min(2 * chain, kMostChainSteps);
      if (chain_s > kChainSeconds) chain = std::max(chain / 2, 1u);
    }
    if (!logits.empty()) generator.read_logits(0, logits.data());
    std::string out;
    for (; n_taken < chosen.size() && !writer.is_stopped(); ++n_taken) {
      const int32_t id = chosen[n_taken];
      answer.ids.push_back(id);
      TokenLogprob& token = answer.logprobs.emplace_back();
      token = {id, logprobs[n_taken], {}};
      if (!logits.empty()) token.top = likeliest_tokens(logits, *arguments.n_logprobs);
      const std::string text = writer.push(id);
      answer.text += text;
      if (arguments.print_ids) {
        out += (answer.ids.size() > 1 ? "," : "") + std::to_string(id);
      } else if (arguments.n_logprobs) {
        out += list_tokens();
      } else {
        out += text;
      }
    }
    if (!out.empty()) write(out);
    interrupted = is_interrupted && is_interrupted();
    const bool is_full = context.size() + n_taken >= generator.n_ctx();
    const bool ended = model.tokenizer() && !arguments.ignore_end && !answer.ids.empty() &&
                       model.tokenizer()->is_end(answer.ids.back());
    if (!runs && is_full && !ended && arguments.context_shift && answer.ids.size() < wanted) {
      // The older half makes room, but for what stands before every text.
      context.insert(context.end(), chosen.begin(), chosen.end());
      const size_t n_kept = model.tokenizer() ? model.tokenizer()->before().size() : 0;
      const auto from = context.begin() + static_cast<std::ptrdiff_t>(n_kept);
      context.erase(from, from + static_cast<std::ptrdiff_t>((context.size() - n_kept + 1) / 2));
      sampling.seed = mix_bits(sampling.seed + 1);
      generator.start(0, context, wanted - static_cast<uint32_t>(answer.ids.size()), sampling);
      n_taken = 0;
      runs = true;
    }
  }
  generator.stop(0);
  std::string rest = writer.finish();
  answer.text += rest;
  if (arguments.n_logprobs) rest = list_tokens();
  if (!arguments.print_ids && !rest.empty()) write(rest);
  answer.times.n_answer = answer.ids.size();
  answer.times.answer_s = seconds_since(answer_start);
  if (writer.is_stopped()) {
    answer.end = "stop";
  } else if (interrupted && runs) {
    answer.end = "interrupted";
  } else if (model.tokenizer() && !answer.ids.empty() &&
             model.tokenizer()->is_end(answer.ids.back())) {
    answer.end = "end";
  } else {
    answer.end = answer.ids.size() >= wanted ? "limit" : "context";
  }
  return answer;
}

void run_perplexity(TextModel& model, const GenerateArguments& arguments, const WriteText& write) {
  std::vector<int32_t> ids =
      model.text_ids(arguments.perplexity_file == "-" ? read_standard_input()
                                                      : read_text_file(arguments.perplexity_file));
  const uint32_t n_ctx = arguments.n_ctx != 0 ? arguments.n_ctx : kPerplexityCtx;
  const size_t n_pieces = ids.size() / n_ctx;
  if (n_pieces == 0) {
    throw Error(ErrorKind::kInput, arguments.perplexity_file + ": expected at least " +
                                       std::to_string(n_ctx) + " tokens, found " +
                                       std::to_string(ids.size()));
  }
  const auto before = model.require_tokenizer().before();
  double sum = 0, squares = 0;
  uint64_t n = 0;
  for (size_t piece = 0; piece < n_pieces; ++piece) {
    const std::span<int32_t> tokens(ids.data() + piece * n_ctx, n_ctx);
    std::vector<int32_t> run(tokens.begin(), tokens.end());
    std::copy(before.begin(), before.end(), run.begin());
    model.generator().evaluate(run, [&](uint32_t first, uint32_t n_rows, const float* logits) {
      const uint32_t n_vocab = model.generator().n_vocab();
      for (uint32_t r = 0; r < n_rows; ++r) {
        const uint32_t at = first + r;
        if (at < n_ctx / 2 || at + 1 >= n_ctx) continue;
        const float* row = logits + size_t{r} * n_vocab;
        const float greatest = *std::max_element(row, row + n_vocab);
        double total = 0;
        for (uint32_t i = 0; i < n_vocab; ++i) total += std::exp(row[i] - greatest);
        const double surprise =
            std::log(total) + greatest - row[static_cast<uint32_t>(tokens[at + 1])];
        sum += surprise;
        squares += surprise * surprise;
        ++n;
      }
    });
  }
  const double count = static_cast<double>(n), mean = sum / count;
  const double deviation =
      std::sqrt(std::max(0.0, squares / count - mean * mean) / std::max(1.0, count - 1));
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "perplexity %.4f +/- %.5f (%llu tokens of %zu contexts of %u)\n", std::exp(mean),
                deviation * std::exp(mean), static_cast<unsigned long long>(n), n_pieces, n_ctx);
  write(line.data());
}

void dump_logits(TextModel& model, const GenerateArguments& arguments,
                 std::span<const int32_t> prompt) {
  AtomicFile file(arguments.logits_file);
  const uint32_t n_vocab = model.generator().n_vocab();
  file.write(npy_header(prompt.size(), n_vocab));
  model.generator().evaluate(prompt, [&](uint32_t, uint32_t n_rows, const float* logits) {
    file.write({reinterpret_cast<const char*>(logits), sizeof(float) * n_rows * n_vocab});
  });
  file.commit();
}

std::vector<int32_t> map_reduced_prompt(TextModel& model, const GenerateArguments& arguments,
                                        const std::string& instruction, const std::string& text) {
  const uint32_t n_ctx = model.generator().n_ctx();
  // Room for the answer to a part.
  const uint32_t n_answer = std::min(arguments.max_new.value_or(n_ctx / 4), n_ctx / 2);
  const size_t n_around = prompt_ids(model, arguments, instruction, "x").size() + 8;
  if (n_around + n_answer + 16 >= n_ctx) {
    throw Error(ErrorKind::kInput, "--long: the instruction of " + std::to_string(n_around) +
                                       " tokens and an answer of " + std::to_string(n_answer) +
                                       " leave no room in the context of " + std::to_string(n_ctx));
  }
  GenerateArguments of_part = arguments;
  of_part.max_new = n_answer;
  of_part.print_ids = false;
  of_part.n_logprobs.reset();
  std::string left = text;
  while (true) {
    std::vector<int32_t> ids = prompt_ids(model, arguments, instruction, left);
    if (ids.size() + n_answer <= n_ctx) return ids;
    const auto most = static_cast<uint32_t>(n_ctx - n_answer - n_around);
    std::string joined;
    for (const std::string& part : parts_of(model, left, most)) {
      const std::vector<int32_t> part_ids = prompt_ids(model, arguments, instruction, part);
      const Answer answer = run_answer(model, of_part, part_ids, [](std::string_view) {});
      joined += (joined.empty() ? "" : "\n\n") +
                without_thinking(answer.text, model.begins_thinking(part_ids));
    }
    if (joined.size() >= left.size()) {
      throw Error(ErrorKind::kInput,
                  "--long: the answers to the parts are as long as the text; expected a smaller "
                  "--max-tokens");
    }
    left = joined;
  }
}

}  // namespace vesper
