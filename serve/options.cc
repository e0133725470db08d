#include "serve/options.h"

#include <chrono>

#include "error/error.h"

namespace vesper {
namespace {

constexpr double kMostSeconds = 7 * 24 * 3600, kMostMb = 1e6, kMb = 1e6, kGb = 1e9;

OptionValue seconds_option(std::chrono::milliseconds& target, double low, double high) {
  const double now = std::chrono::duration<double>(target).count();
  return number_range(low, high, "seconds",
                      [&target](double value) {
                        target = std::chrono::milliseconds(static_cast<int64_t>(value * 1000));
                      })
      .with_default(decimal_text(now));
}

OptionValue megabytes_option(uint64_t& target) {
  return number_range(0.001, kMostMb, "MB",
                      [&target](double value) { target = static_cast<uint64_t>(value * kMb); })
      .with_default(decimal_text(static_cast<double>(target) / kMb));
}

void add_model_options(OptionTable& options, ServeArguments& arguments) {
  RegistryOptions& registry = arguments.registry;
  options.section("Models");
  std::vector<std::string> names;
  for (const KnownModel& known : known_models()) {
    if (known.kind != ModelKind::kVad) names.emplace_back(known.name);
  }
  OptionValue models = repeated_option(arguments.models).with_suggestions(std::move(names));
  models.completion = Completion::kFile;
  options
      .add("-m, --model NAME|PATH", std::move(models),
           "a speech model, language model or text encoder")
      .add_details(
          "A known model is downloaded from Hugging Face if it is absent. Clients name a model as "
          "here; one that is given by its path, by its folder or by its file without the "
          "extension.");
  options.add_advanced("--vad-model NAME|PATH", text_option(arguments.vad_model),
                       "finds the speech in recordings (default: silero-vad if it is installed)");
  options.add("--lazy", flag_option([&] { registry.host.is_preloaded = false; }),
              "load a model for its first request, not at the start");
  options.add("--unload-after SECONDS", number_option(arguments.idle_s, 1, kMostSeconds, "seconds"),
              "unload a model that had no request for so long");
  options
      .add("--memory GB", number_option(arguments.memory_gb, 0.001, 1e6, "GB"),
           "of all loaded models together; implies --lazy")
      .add_details(
          "A model counts with its weights, and with the cache of --slots answers of --ctx tokens. "
          "One that needs room waits until others have no request, and are unloaded; after 3 s "
          "these begin no further ones.");
}

void add_network_options(OptionTable& options, ServeArguments& arguments) {
  ServerOptions& server = arguments.server;
  options.section("Network");
  options.add("--host HOST", text_option(server.host),
              "the address or name to listen on; 0.0.0.0: every network");
  options.add("--port N", integer_option(server.port, 0, 65535), "0: a free one");
  OptionValue keys = text_option(server.keys_file);
  keys.completion = Completion::kFile;
  options.add("--api-keys FILE", keys, "only clients with one of these keys")
      .add_details(
          "A line for each key: the name of the client, the SHA-256 of the key in hexadecimal, and "
          "limits of the client: at-once=N requests, per-minute=N. `printf %s KEY | sha256sum` "
          "prints the digest. SIGHUP reads the file again.");
  options
      .add("--allow-host NAME", repeated_option(server.hosts),
           "a further name of this server, such as that of a proxy")
      .add_details(
          "A request for another name is refused, which protects from pages that point their own "
          "name to this machine. Addresses and localhost are allowed. *: every name.");
  options
      .add("--allow-origin ORIGIN", repeated_option(server.origins),
           "pages of this site may send requests")
      .add_details("Such as https://chat.example.org. *: every site.");
}

void add_limit_options(OptionTable& options, ServeArguments& arguments) {
  RegistryOptions& registry = arguments.registry;
  ServerOptions& server = arguments.server;
  options.section("Limits");
  options
      .add("--slots N", integer_option(registry.text.n_slots, bounds::kSlots),
           "answers of a language model at once")
      .sets("n slots");
  options
      .add("--ctx N", integer_option(registry.text.context, bounds::kContext).with_default("4096"),
           "tokens of a prompt and its answer")
      .sets("context");
  options.add("--batch-size N", integer_option(registry.speech.batch_size, bounds::kBatchSize),
              "recordings decoded at once; with chunking_strategy also segments of one");
  options
      .add("--max-queue N", integer_option(registry.host.most_waiting, 1, 1000000),
           "requests that wait for a model; further ones get 429")
      .add_details("Clients take turns, so that one with many requests does not delay the others.");
  options.add("--max-upload MB", megabytes_option(server.api.max_upload_bytes), "of a recording");
  options.add("--max-audio SECONDS",
              number_option(server.api.max_audio_s, 1, kMostSeconds, "seconds"),
              "length of a recording");
  options.add_advanced("--max-decoding SECONDS",
                       number_option(server.api.max_decoding_s, 0.001, kMostSeconds, "seconds"),
                       "time in which the file of a recording must be decoded");
  options
      .add_advanced("--max-streams N", integer_option(server.n_live_streams, 1, 1000),
                    "live streams at once; further ones get an error")
      .add_details("Each loads its speech model once more.");
  options.add_advanced("--max-json MB", megabytes_option(server.api.max_json_bytes),
                       "of a request in JSON");
  options.add_advanced("--max-connections N", integer_option(server.http.n_connections, 1, 10000),
                       "at once; further ones get 503");
  options.add_advanced("--header-time SECONDS", seconds_option(server.http.header, 0.1, 3600),
                       "in which the header of a request must arrive");
  options.add_advanced("--stall-time SECONDS", seconds_option(server.http.stall, 0.1, 3600),
                       "after which a client that neither sends nor reads is disconnected");
  options.add_advanced("--idle-time SECONDS", seconds_option(server.http.idle, 0.1, 86400),
                       "that a connection may wait for its next request");
  options.add_advanced("--grace SECONDS", seconds_option(server.grace, 0, 3600),
                       "that running requests have to end after SIGTERM or Ctrl-C");
}

}  // namespace

OptionTable serve_options(ServeArguments& arguments) {
  OptionTable options({
      .name = "serve",
      .usages = {"-m NAME|PATH [OPTION]..."},
      .description = "Answers the requests of OpenAI's API over HTTP: transcriptions, "
                     "translations, chats, completions, embeddings. Only this machine can reach "
                     "it unless --host is given.",
      .examples = {"serve -m base -m smollm2-135m -m all-minilm-l6-v2",
                   "curl -F file=@talk.wav -F model=base localhost:8080/v1/audio/transcriptions"},
      .exit_status = "0 stopped by a signal, 2 usage, 3 keys, 4 model",
  });
  add_model_options(options, arguments);
  add_network_options(options, arguments);
  add_limit_options(options, arguments);
  options.section("Settings");
  options.add_settings("VESPER_SERVE_");
  options.section("Engine");
  TextSessionOptions& engine = arguments.registry.text;  // copied to the others
  options.add_engine_options(engine.device, engine.compute, engine.threads, arguments.offline);
  return options;
}

std::optional<std::string> parse_serve_options(int argc, const char* const* argv,
                                               ServeArguments& arguments) {
  constexpr uint32_t kSlots = 8, kBatchSize = 8;
  RegistryOptions& registry = arguments.registry;
  registry.text.n_slots = kSlots;
  registry.text.may_differ_with_others = true;
  registry.speech.batch_size = kBatchSize;
  OptionTable options = serve_options(arguments);
  if (auto answer = options.parse(argc, argv)) return answer;
  if (arguments.models.empty()) {
    throw Error(ErrorKind::kUsage, "--model: expected at least one model");
  }
  const auto set_engine = [&](auto& session) {
    session.device = registry.text.device;
    session.compute = registry.text.compute;
    session.threads = registry.text.threads;
  };
  set_engine(registry.speech);
  set_engine(registry.embedding);
  if (arguments.idle_s) {
    registry.host.idle_limit =
        std::chrono::milliseconds(static_cast<int64_t>(*arguments.idle_s * 1000));
  }
  if (arguments.memory_gb) {
    registry.host.memory =
        std::make_shared<MemoryBudget>(static_cast<uint64_t>(*arguments.memory_gb * kGb));
    registry.host.is_preloaded = false;
  }
  return std::nullopt;
}

}  // namespace vesper
