#include "serve/access/client_limits.h"

#include <algorithm>

namespace vesper {

std::optional<ClientLimits::Running> ClientLimits::begin(const Client& client,
                                                         Clock::time_point now,
                                                         std::chrono::seconds& retry_after) {
  constexpr std::chrono::minutes kWindow{1};
  const std::lock_guard lock(mutex_);
  Use& use = uses_[client.name];
  const ClientQuota& quota = client.quota;
  if (quota.n_running > 0 && use.n_running >= quota.n_running) {
    retry_after = std::chrono::seconds(1);
    return std::nullopt;
  }
  while (!use.begun.empty() && now - use.begun.front() >= kWindow) use.begun.pop_front();
  if (quota.per_minute > 0) {
    if (use.begun.size() >= quota.per_minute) {
      retry_after =
          std::max(std::chrono::seconds(1),
                   std::chrono::ceil<std::chrono::seconds>(use.begun.front() + kWindow - now));
      return std::nullopt;
    }
    use.begun.push_back(now);
  }
  ++use.n_running;
  return std::optional<Running>(std::in_place, *this, client.name);
}

void ClientLimits::end(const std::string& name) {
  const std::lock_guard lock(mutex_);
  --uses_[name].n_running;
}

}  // namespace vesper
