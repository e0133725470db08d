#include "decoder/windows/window_policy.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {

WindowPolicy WindowPolicy::reference() {
  WindowPolicy policy;
  for (const WindowRule& rule : kWindowRules) policy.*rule.is_on = false;
  return policy;
}

void disable_rule(WindowPolicy& policy, std::string_view name) {
  const auto rule = std::ranges::find(kWindowRules, name, &WindowRule::name);
  if (rule != kWindowRules.end()) {
    policy.*rule->is_on = false;
    return;
  }
  std::string message = "expected one of ";
  for (const WindowRule& known : kWindowRules) {
    message.append(known.name == kWindowRules.front().name ? "" : ", ").append(known.name);
  }
  throw Error(ErrorKind::kUsage, "window rule", message + ", found '" + std::string(name) + "'");
}

}  // namespace vesper
