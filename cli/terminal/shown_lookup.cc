#include "cli/terminal/shown_lookup.h"

#include "cli/terminal/program.h"
#include "cli/terminal/progress.h"
#include "session/model_lookup.h"

namespace vesper {

std::filesystem::path find_model_showing(std::string_view program, const std::string& name_or_path,
                                         ModelKind kind, bool offline) {
  Progress progress(true);
  ModelLookup lookup;
  lookup.kind = kind;
  lookup.offline = offline;
  lookup.on_fetch = [&](const std::string& name, const std::string& url,
                        const std::filesystem::path& target) {
    progress.clear();
    print_error(program, "fetching model " + name + " from " + url + " to " + target.string());
    progress.start(name);
  };
  lookup.download.on_progress = [&](uint64_t done, uint64_t total, uint64_t before) {
    progress.show_bytes(done, total, before);
  };
  lookup.download.on_wait = [&] {
    print_error(program, "another process is fetching this model: waiting for it");
  };
  return find_model(name_or_path, lookup);
}

}  // namespace vesper
