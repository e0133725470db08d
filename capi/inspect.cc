// The inspection and conversion of models: include/vesper/inspect.h.
#include <vesper/inspect.h>

#include <memory>
#include <string>
#include <vector>

#include "capi/cancellation.h"
#include "capi/errors.h"
#include "capi/library.h"
#include "capi/options.h"
#include "session/inspection/reports.h"

namespace vesper::capi {
namespace {

vesper_inspect_options default_inspect_options() {
  vesper_inspect_options options{};
  options.size = sizeof options;
  options.load = default_load_options();
  return options;
}

vesper_convert_options default_convert_options() {
  vesper_convert_options options{};
  options.size = sizeof options;
  options.load = default_load_options();
  return options;
}

// The options of the caller, with checked pointers.
class InspectOptions {
 public:
  explicit InspectOptions(const vesper_inspect_options* given)
      : given_(read_options("options", given, default_inspect_options())),
        load_(read_load_options(given_.load)) {
    set_engine(load_, *this);
    if (given_.n_filters != 0) required("filters", given_.filters);
    for (size_t i = 0; i < given_.n_filters; ++i) {
      filters.emplace_back(required("filters", given_.filters[i]));
    }
    if (given_.input) input = given_.input;
  }

  std::filesystem::path path_of(const char* argument, const char* model) const {
    return model_store(load_).find(required(argument, model));
  }
  bool has_statistics() const { return given_.statistics != 0; }
  bool per_command() const { return given_.per_command != 0; }

  std::string device, compute;
  uint32_t threads = 0;
  std::vector<std::string> filters;
  std::string input;

 private:
  vesper_inspect_options given_;
  vesper_load_options load_;
};

// Runs `document`, which returns JSON, for a function with this result.
template <class Document>
vesper_status inspect(const char* function, char** json, const Document& document) {
  return guarded(function, nullptr, [&] {
    *required("json", json) = nullptr;
    *json = copied_string(report_text(document()));
  });
}

}  // namespace
}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

void vesper_inspect_options_init(vesper_inspect_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_inspect_options);
}

vesper_status vesper_inspect_model(const char* model, const vesper_inspect_options* options,
                                   char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    return summary_json(
        vesper::summarize_model(given.path_of("model", model), given.device, given.compute));
  });
}

vesper_status vesper_inspect_metadata(const char* model, const vesper_inspect_options* options,
                                      char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    return metadata_json(vesper::describe_model(given.path_of("model", model)), given.filters);
  });
}

vesper_status vesper_inspect_tensors(const char* model, const vesper_inspect_options* options,
                                     char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    return tensors_json(vesper::list_tensors(given.path_of("model", model), given.filters,
                                             given.has_statistics(), given.threads));
  });
}

vesper_status vesper_inspect_tokens(const char* model, const char* text,
                                    const vesper_inspect_options* options, char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    capi::required("text", text);
    return tokens_json(vesper::tokenize_text(given.path_of("model", model), text));
  });
}

vesper_status vesper_inspect_checksums(const char* model, const vesper_inspect_options* options,
                                       char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    return checksums_json(vesper::file_checksums(given.path_of("model", model)));
  });
}

vesper_status vesper_inspect_verify(const char* model, const vesper_inspect_options* options,
                                    int* is_sound, char** json) {
  bool sound = false;
  const vesper_status status = capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    const vesper::ModelVerification result =
        vesper::verify_model(given.path_of("model", model), given.threads);
    sound = result.is_sound();
    return verification_json(result);
  });
  if (is_sound) *is_sound = status == VESPER_OK && sound ? 1 : 0;
  return status;
}

vesper_status vesper_inspect_diff(const char* model, const char* other,
                                  const vesper_inspect_options* options, int* is_equal,
                                  char** json) {
  bool equal = false;
  const vesper_status status = capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    const vesper::ModelDifference difference = vesper::compare_models(
        given.path_of("model", model), given.path_of("other", other), given.threads);
    equal = difference.empty();
    return difference_json(difference);
  });
  if (is_equal) *is_equal = status == VESPER_OK && equal ? 1 : 0;
  return status;
}

vesper_status vesper_inspect_table(const char* model, const vesper_inspect_options* options,
                                   char** json) {
  return capi::inspect(__func__, json, [&] {
    const capi::InspectOptions given(options);
    return table_json(
        vesper::command_table(given.path_of("model", model), given.device, given.compute));
  });
}

vesper_status vesper_inspect_profile(const char* model, const vesper_inspect_options* options,
                                     char** json, char** trace, char** csv) {
  return capi::guarded(__func__, nullptr, [&] {
    for (char** text : {json, trace, csv}) {
      if (text) *text = nullptr;
    }
    const capi::InspectOptions given(options);
    const vesper::Profile profile = vesper::profile_model({.model = given.path_of("model", model),
                                                           .input = given.input,
                                                           .device = given.device,
                                                           .compute = given.compute,
                                                           .threads = given.threads,
                                                           .per_command = given.per_command()});
    using Copy = std::unique_ptr<char, void (*)(char*)>;
    const auto copy = [](char** wanted, const std::string& text) {
      return Copy(wanted ? capi::copied_string(text) : nullptr, &vesper_string_free);
    };
    Copy json_copy = copy(json, vesper::report_text(profile_json(profile)));
    Copy trace_copy = copy(trace, profile_trace(profile));
    Copy csv_copy = copy(csv, profile_csv(profile));
    if (json) *json = json_copy.release();
    if (trace) *trace = trace_copy.release();
    if (csv) *csv = csv_copy.release();
  });
}

void vesper_convert_options_init(vesper_convert_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_convert_options);
}

vesper_status vesper_convert(const char* model, const char* output, const char* type,
                             const vesper_convert_options* options, char** json) {
  if (json) *json = nullptr;
  return capi::guarded(__func__, nullptr, [&] {
    const auto given = capi::read_options("options", options, capi::default_convert_options());
    const vesper_load_options load = capi::read_load_options(given.load);
    vesper::ConversionOptions conversion;
    conversion.output = capi::required("output", output);
    conversion.type = capi::required("type", type);
    conversion.threads = load.threads;
    check_options(conversion);  // before a download
    const auto is_cancelled = capi::is_cancelled(given.cancellation);
    conversion.model = capi::model_store(load, is_cancelled).find(capi::required("model", model));
    conversion.on_progress = [&](uint64_t done, uint64_t total) {
      if (is_cancelled && is_cancelled()) vesper::throw_stopped();
      if (given.on_progress && given.on_progress(done, total, given.user) != 0) {
        vesper::throw_stopped();
      }
    };
    const vesper::ConversionReport report = convert_model(conversion);
    if (json) *json = capi::copied_string(vesper::report_text(conversion_json(report)));
  });
}

vesper_status vesper_inspect_devices(char** json) {
  return capi::inspect(__func__, json, [] { return devices_json(vesper::describe_devices()); });
}

}  // extern "C"
